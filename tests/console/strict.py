"""What a strict policy forbids on a page."""

from html.parser import HTMLParser


class Inline(HTMLParser):
    """Collects what a strict policy forbids, and every address that a page loads from."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "style" or "style" in given:
            self.found.append(f"style on {tag}")
        if tag == "script" and "src" not in given and given.get("type") != "application/json":
            self.found.append("inline script")
        self.found.extend(name for name in given if name.startswith("on"))
        for name in ("src", "href", "action"):
            address = given.get(name)
            if address:
                self.sources.append(address)


def forbidden(html: str) -> list[str]:
    """What is inline on the page."""
    page = Inline()
    page.feed(html)
    return page.found
