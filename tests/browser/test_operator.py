"""What an operator does, from a draft policy over diff, what-if and canary to activation and
rollback; each page on the way looked at in light and dark, on a desk and on a phone."""

import re

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

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
RESULT_MS = 90_000
SEEN_BY_AXE = {("light", 1280), ("dark", 390)}


async def looks_right(page: Page, name: str) -> None:
    for scheme in SCHEMES:
        await page.emulate_media(color_scheme=scheme)
        await expect(page.locator("html")).to_have_attribute("data-bs-theme", scheme)
        for width, height in WIDTHS.items():
            await page.set_viewport_size({"width": width, "height": height})
            await screenshot(page, name, width, scheme)
            # Colours differ by scheme and structure by width: two of the four see all of both.
            if (scheme, width) in SEEN_BY_AXE:
                assert await serious_violations(page) == [], (name, scheme, width)
            assert await overflow(page) <= 0, (name, width)
    await page.emulate_media(color_scheme="light")
    await page.set_viewport_size({"width": 1280, "height": WIDTHS[1280]})


async def draft(page: Page, field: str, value: str, reason: str) -> None:
    """Save a draft in which one field is other than in the active policy."""
    await page.goto("/ops/policy/")
    await page.get_by_role("link", name="New draft").click()
    await page.get_by_label(field).fill(value)
    await page.get_by_label("Reason").fill(reason)
    await page.get_by_role("button", name="Save as a draft").first.click()
    await page.wait_for_url(re.compile(r"/ops/policy/\d+/$"))


async def activate(page: Page, reason: str) -> None:
    section = page.get_by_role("region", name="Activate for all")
    await section.get_by_label("Reason").fill(reason)
    await section.get_by_role("button", name="Activate").click()
    await page.wait_for_url("**/ops/policy/")


async def test_from_a_draft_to_its_rollback(site: Site, browser: Browser) -> None:
    watched = await open_page(browser, base=site.url)
    page = watched.page
    await sign_in(page, site, "operator")
    await draft(page, "Weight of the time left to the deadline.", "0.6", "closer deadlines")
    first = page.url.rstrip("/").rpartition("/")[2]
    await activate(page, "first of all")
    await expect(page.get_by_role("status")).to_contain_text(f"Policy {first} is active.")

    # A mistake stands at its field, and nothing is lost.
    await page.goto("/ops/policy/edit/0/")
    await page.get_by_label("Wait of P0 that ends it").fill("9000")
    await page.get_by_role("button", name="Save as a draft").first.click()
    await expect(page.get_by_text("Must be at most the wait that sets it off.")).to_be_visible()
    await expect(page.get_by_label("Wait of P0 that ends it")).to_have_value("9000")
    await looks_right(page, "policy-edit")

    await draft(page, "Weight of the time left to the deadline.", "0.9", "closer still")
    second = page.url.rstrip("/").rpartition("/")[2]
    changes = page.get_by_role("region", name=f"Against the active policy {first}")
    await expect(changes).to_contain_text("order.deadline")
    await expect(changes.locator("del")).to_have_text("0.6")
    await expect(changes.locator("ins")).to_have_text("0.9")
    await looks_right(page, "policy-version")

    await page.get_by_label("Traffic").select_option("5")
    await page.get_by_role("button", name="Run").click()
    await page.wait_for_url("**/ops/what-if/*/")
    await page.get_by_role("heading", name="Figures").wait_for(timeout=RESULT_MS)
    await expect(page.get_by_text("Under the active policy the replay")).to_be_visible()
    for lane in ("P0", "P1", "P2"):
        await expect(page.get_by_role("region", name=f"Lane {lane}")).to_be_visible()
    assert await page.locator("[data-what-if] canvas").count() == 2
    await looks_right(page, "what-if")

    await page.goto(f"/ops/policy/{second}/")
    section = page.get_by_role("region", name="Canary")
    await section.get_by_label("Businesses").select_option("doc-qa")
    await section.get_by_label("Reason").fill("on one of them")
    await section.get_by_role("button", name="Start the canary").click()
    await page.wait_for_url("**/ops/policy/")
    await expect(page.get_by_role("region", name=f"Canary of policy {second}")).to_contain_text(
        "doc-qa"
    )
    await looks_right(page, "policy-canary")
    await page.get_by_role("button", name="End the canary").click()
    await expect(page.get_by_role("status")).to_contain_text("The canary has ended.")

    await page.goto(f"/ops/policy/{second}/")
    await activate(page, "it did well")
    await expect(page.get_by_role("region", name="Active")).to_contain_text(f"Policy {second}")
    await page.get_by_role("button", name=f"Roll back to {first}").click()
    await expect(page.get_by_role("region", name="Active")).to_contain_text(f"Policy {first}")
    await looks_right(page, "policy")

    await page.goto("/audit/?action=policy")
    entries = page.get_by_role("region", name="Entries")
    for reason in ("it did well", f"Rollback to policy {first}", "first of all"):
        await expect(entries).to_contain_text(reason)
    await expect(entries.get_by_role("cell", name="operator console").first).to_be_visible()
    # A refused form is a 422, which browsers note as an error of loading.
    assert [each for each in watched.complaints if "422" not in each] == []


PAGES = {
    "live": "/ops/live/",
    "fleet": "/ops/fleet/",
    "replica": "/ops/fleet/replicas/new/",
    "pool": "/ops/fleet/pools/new/",
    "businesses": "/ops/businesses/",
    "business": "/ops/businesses/risk-audit/",
    "decisions": "/ops/decisions/",
    "audit": "/audit/",
}


@pytest.mark.parametrize("name", PAGES)
async def test_an_operators_page_looks_right(site: Site, browser: Browser, name: str) -> None:
    watched = await open_page(browser, base=site.url)
    page = watched.page
    await sign_in(page, site, "operator")
    await page.goto(PAGES[name])
    if await page.locator("[data-live], [data-fleet]").count():
        await page.wait_for_selector('[data-status="live"]', timeout=20_000)
    await looks_right(page, name)
    assert watched.complaints == []


async def test_a_replica_is_drained_and_taken_back(site: Site, browser: Browser) -> None:
    page = (await open_page(browser, base=site.url)).page
    await sign_in(page, site, "operator")
    await page.goto("/ops/fleet/")
    row = page.locator('[data-replica="card-3"]')
    await expect(row.locator('[data-value="state"]')).to_have_text("Ready", timeout=20_000)
    await row.get_by_role("button", name="Drain: card-3").click()
    await expect(row.locator('[data-value="state"]')).to_have_text("Draining", timeout=20_000)
    await row.get_by_role("button", name="Take back: card-3").click()
    await expect(row.locator('[data-value="state"]')).to_have_text("Ready", timeout=20_000)
    await row.get_by_role("button", name="Test: card-3").click()
    await expect(page.get_by_role("status").first).to_contain_text("card-3 answers: HTTP 200")


async def test_a_requests_story_is_found_by_its_id(site: Site, browser: Browser) -> None:
    page = (await open_page(browser, base=site.url)).page
    await sign_in(page, site, "operator")
    await page.goto("/ops/live/")
    await until_live(page)
    request = page.locator(".fl-request:not(:empty)").first
    await request.wait_for(timeout=20_000)
    found = await request.inner_text()
    await page.goto("/ops/decisions/")
    await page.get_by_label("Request id").fill(found)
    story = page.get_by_role("region", name="What was decided")
    # Decisions are written within a second or two.
    for _ in range(40):
        await page.get_by_role("button", name="Search").click()
        if await story.count():
            break
        await page.wait_for_timeout(500)
    await expect(story).to_contain_text("Started")
    await looks_right(page, "story")
