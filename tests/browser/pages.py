"""What a person does on the pages, and what to look for on all of them."""

import contextlib
from pathlib import Path
from typing import Literal

from playwright.async_api import Browser, Page
from playwright.async_api import TimeoutError as PlaywrightTimeout

from .conftest import ROOT, SCREENSHOTS, Site

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
WIDTHS = {1280: 900, 390: 844}
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
SHOTS = 3
SHOT_MS = 20_000.0


class Watched:
    """A page together with everything that its console complained about."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on(
            "console",
            lambda message: (
                self.complaints.append(message.text)
                if message.type in {"error", "warning"}
                else None
            ),
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))


async def open_page(
    browser: Browser, *, width: int = 1280, scheme: Scheme = "light", base: str = ""
) -> Watched:
    """A new window, with no cookie of any other."""
    context = await browser.new_context(
        viewport={"width": width, "height": WIDTHS[width]},
        color_scheme=scheme,
        # Colours half-way from one theme to the other are nobody's choice.
        reduced_motion="reduce",
        base_url=base or None,
        locale="en-GB",
    )
    return Watched(await context.new_page())


async def sign_in(page: Page, site: Site, role: str, base: str = "") -> None:
    """Through the form, as a person does."""
    username, password = site.logins[role]
    await page.goto(f"{base or site.url}/accounts/login/")
    await page.get_by_label("Username").fill(username)
    await page.get_by_label("Password").fill(password)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url(lambda url: "/accounts/login/" not in url)


async def until_live(page: Page, timeout_s: float = 20.0) -> None:
    await page.wait_for_selector('[data-live][data-status="live"]', timeout=timeout_s * 1_000)


async def serious_violations(page: Page) -> list[str]:
    """What axe finds on the page that is serious or worse."""
    await page.evaluate(f"{AXE.read_text(encoding='utf-8')}; 1")
    results = await page.evaluate("axe.run()")
    return [
        f"{each['id']}: {[node['html'] for node in each['nodes']]}"
        for each in results["violations"]
        if each["impact"] in {"serious", "critical"}
    ]


async def overflow(page: Page) -> int:
    """Pixels by which the page is wider than the window."""
    return int(await page.evaluate("document.documentElement.scrollWidth - innerWidth"))


async def screenshot(page: Page, name: str, width: int, scheme: Scheme) -> Path:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    path = SCREENSHOTS / f"{name}-{width}-{scheme}.png"
    # Headless Chromium on a busy machine sometimes never paints the frame that a screenshot
    # waits for; a new request for one wakes it.
    for _ in range(SHOTS - 1):
        with contextlib.suppress(PlaywrightTimeout):
            await page.screenshot(path=path, full_page=True, timeout=SHOT_MS)
            return path
    await page.screenshot(path=path, full_page=True)
    return path
