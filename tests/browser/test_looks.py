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


async def go(page: Page, address: str) -> None:
    """Open an address, or walk to a page that only a click leads to."""
    if not address.startswith("click:"):
        await page.goto(address)
        return
    await page.goto("/keys/")
    what = address.removeprefix("click:")
    if what == "create":
        await page.get_by_label("Name").fill("to look at")
        await page.get_by_role("button", name="Create key").click()
        await page.get_by_label("The key", exact=True).wait_for()
    else:
        await page.get_by_role("link", name=what).first.click()
        await page.get_by_role("button", name=f"{what} key").wait_for()


PAGES = {
    "sign-in": ("", "/accounts/login/"),
    "overview": ("owner", "/"),
    "keys": ("owner", "/keys/"),
    "key-made": ("owner", "click:create"),
    "key-rotate": ("owner", "click:Rotate"),
    "key-revoke": ("owner", "click:Revoke"),
    "live": ("operator", "/ops/live/"),
    "usage": ("finance", "/finance/usage/"),
}


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_looks_right(site: Site, browser: Browser, name: str) -> None:
    role, address = PAGES[name]
    watched = await open_page(browser, base=site.url)
    page = watched.page
    if role:
        await sign_in(page, site, role)
    await go(page, address)
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
    assert watched.complaints == []


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
    for _ in range(12):
        await page.keyboard.press("Tab")
        focused = page.locator(":focus")
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
