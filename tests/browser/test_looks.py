"""Every page, on a desk and on a phone, in light and dark: no error, no barrier, no overflow."""

import pytest
from playwright.async_api import Browser, Page, expect

from .conftest import Site
from .pages import (
    SCHEMES,
    WIDTHS,
    open_page,
    overflow,
    screenshot,
    serious_violations,
    sign_in,
    until_live,
)

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


async def go(page: Page, steps: tuple[str, ...]) -> None:
    """Open an address, then do what leads to a page that has none of its own: follow a link
    (link:), press a button (button:), fill a field (fill:label=text)."""
    await page.goto(steps[0])
    for step in steps[1:]:
        kind, _colon, what = step.partition(":")
        if kind == "fill":
            label, _equals, text = what.partition("=")
            # A required field's label ends in a mark.
            field = page.get_by_label(label, exact=True).or_(page.get_by_label(f"{label}*"))
            await field.first.fill(text)
        elif kind == "link":
            await page.get_by_role("link", name=what).first.click()
        else:
            await page.get_by_role("button", name=what, exact=True).first.click()
        await page.wait_for_load_state("networkidle")


ISSUE = ("/credentials/", "fill:Service=looks", "button:Issue credential")
PAGES: dict[str, tuple[str, ...]] = {
    "sign-in": ("", "/accounts/login/"),
    "overview": ("owner", "/"),
    "keys": ("owner", "/keys/"),
    "key-made": ("owner", "/keys/", "fill:Name=to look at", "button:Create key"),
    "key-rotate": ("owner", "/keys/", "link:Rotate"),
    "key-revoke": ("owner", "/keys/", "link:Revoke"),
    "credential-made": ("owner", *ISSUE),
    "credentials": ("owner", *ISSUE, "link:Done: back"),
    "credential-narrow": ("owner", *ISSUE, "link:Done: back", "link:Narrow"),
    "credential-revoke": ("owner", *ISSUE, "link:Done: back", "link:Revoke"),
    "quotas": ("owner", "/quotas/"),
    "alerts": ("owner", "/quotas/alerts/"),
    "quotas-wrong": (
        "owner",
        "/quotas/",
        "fill:Running requests=-1",
        "fill:Requests at once=0.5",
        "button:Show the effect",
    ),
    "quotas-effect": (
        "owner",
        "/quotas/",
        "fill:Requests per second=0",
        "fill:Waiting requests=900",
        "button:Show the effect",
    ),
    "bills": ("owner", "/bills/"),
    "bill": ("owner", "/bills/", "link:20"),
    "members": ("owner", "/members/"),
    "try": ("owner", "/try/"),
    "tokens": ("owner", "/accounts/tokens/"),
    "api": ("owner", "/api/docs/"),
    "not-allowed": ("owner", "/finance/bills/"),
    "live": ("operator", "/ops/live/"),
    "finance-bills": ("finance", "/finance/bills/"),
    "finance-bill": ("finance", "/bills/1/"),
    "prices": ("finance", "/finance/prices/"),
    "credit-notes": ("finance", "/finance/credit-notes/?bill=B-000001"),
    "reconciliation": ("finance", "/finance/reconciliation/", "button:Compare now"),
    "usage": ("finance", "/finance/usage/"),
}


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_looks_right(
    site: Site, closed_month: str, browser: Browser, name: str
) -> None:
    role, *steps = PAGES[name]
    watched = await open_page(browser, base=site.url)
    page = watched.page
    if role:
        await sign_in(page, site, role)
    await go(page, tuple(steps))
    for scheme in SCHEMES:
        await page.emulate_media(color_scheme=scheme)
        await expect(page.locator("html")).to_have_attribute("data-bs-theme", scheme)
        for width, height in WIDTHS.items():
            await page.set_viewport_size({"width": width, "height": height})
            if await page.locator("[data-live]").count():
                await until_live(page)
            await screenshot(page, name, width, scheme)
            assert await serious_violations(page) == []
            assert await overflow(page) <= 0
    # The browser counts an answer that says no among its complaints.
    refused = "403 (" if name == "not-allowed" else "422 ("
    assert [each for each in watched.complaints if refused not in each] == []


async def test_the_switch_wins_over_the_system_and_is_remembered(
    site: Site, browser: Browser
) -> None:
    page = (await open_page(browser, scheme="dark")).page
    await page.goto(f"{site.url}/accounts/login/")
    html = page.locator("html")
    assert await html.get_attribute("data-bs-theme") == "dark"
    await page.get_by_role("button", name="Switch between light and dark").click()
    assert await html.get_attribute("data-bs-theme") == "light"
    await page.reload()
    assert await html.get_attribute("data-bs-theme") == "light"


async def test_the_keyboard_reaches_everything(site: Site, browser: Browser) -> None:
    page = (await open_page(browser)).page
    await sign_in(page, site, "owner")
    await page.goto(f"{site.url}/keys/")
    reached = []
    for _ in range(24):
        await page.keyboard.press("Tab")
        focused = page.locator(":focus")
        if not await focused.count():
            break  # past the last one: the browser's own buttons are next
        reached.append(await focused.get_attribute("id") or (await focused.inner_text()).strip())
    assert reached[0] == "Skip to content"
    for name in ("Overview", "Keys", "id_name", "id_days", "Create key"):
        assert name in reached, reached


async def test_the_menu_opens_on_a_phone(site: Site, browser: Browser) -> None:
    page = (await open_page(browser, width=390)).page
    await sign_in(page, site, "owner")
    await page.get_by_role("button", name="Menu").click()
    await page.get_by_role("link", name="Keys", exact=True).click()
    await page.wait_for_url("**/keys/")
    await page.get_by_role("button", name="Account").click()
    await page.get_by_role("button", name="Sign out").click()
    await page.wait_for_url("**/accounts/login/**")
