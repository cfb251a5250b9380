"""Finance, from month close to download, and what it must not see."""

import zipfile
from decimal import Decimal

import pytest
from playwright.async_api import Browser, expect

from .conftest import Site
from .pages import open_page, sign_in

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

FINISH_CLOSES = "from metering.services.month_close import finish_closes; finish_closes()"
MAKE_ARCHIVES = "from metering.services.archives import make_archives; make_archives()"


async def test_a_month_is_closed_compared_credited_and_downloaded(
    site: Site, browser: Browser, last_month: str
) -> None:
    watched = await open_page(browser, base=site.url)
    page = watched.page
    await sign_in(page, site, "finance")
    await page.wait_for_url("**/finance/bills/")
    await page.get_by_label("Month").select_option(last_month)
    await page.get_by_role("button", name="Show").click()
    close = page.get_by_role("button", name="Close the month")
    if await close.count():  # unless another test of this session had it closed
        await close.click()
        await expect(page.get_by_text("Its bills are issued in the background.")).to_be_visible()
        # The worker takes it up, or this does; the page follows by itself.
        site.run(FINISH_CLOSES)
        archive = page.get_by_role("button", name="Put all bills into a zip")
        await expect(archive).to_be_visible(timeout=60_000)
    row = page.get_by_role("row").filter(has_text="risk-audit")
    await expect(row).to_be_visible()

    await page.get_by_role("button", name="Put all bills into a zip").click()
    await (
        page.get_by_text("The zip is being made")
        .or_(page.get_by_role("link", name="Download all as a zip"))
        .first.wait_for()
    )
    site.run(MAKE_ARCHIVES)
    async with page.expect_download() as waiting:
        await page.get_by_role("link", name="Download all as a zip").click(timeout=60_000)
    with zipfile.ZipFile(await (await waiting.value).path()) as pack:
        assert len(pack.namelist()) == 8

    await row.get_by_role("link", name="B-").first.click()
    await page.get_by_role("link", name="Issue a credit note").click()
    await page.get_by_label("Amount").fill("0.01")
    await page.get_by_label("Reason").fill("a slow day")
    await page.get_by_role("button", name="Issue credit note").click()
    await expect(page.get_by_role("row").filter(has_text="a slow day")).to_be_visible()
    await page.get_by_label("Bill").fill("B-999999")
    await page.get_by_label("Amount").fill("1")
    await page.get_by_label("Reason").fill("x")
    await page.get_by_role("button", name="Issue credit note").click()
    await expect(page.get_by_text("There is no such bill.")).to_be_visible()

    await page.get_by_role("link", name="Reconciliation").click()
    await page.get_by_label("Month").select_option(last_month)
    await page.get_by_role("button", name="Show").click()
    await page.get_by_role("button", name="Compare now").click()
    await expect(page.get_by_text("Everything agrees")).to_be_visible()
    assert [each for each in watched.complaints if "422" not in each] == []


async def test_prices_get_a_new_version(site: Site, browser: Browser, last_month: str) -> None:
    page = (await open_page(browser, base=site.url)).page
    await sign_in(page, site, "finance")
    await page.get_by_role("link", name="Prices").click()
    prompt = page.get_by_label("Prompt tokens, per million").first
    before = Decimal(await prompt.input_value())
    await prompt.fill("-1")
    await page.get_by_role("button", name="Set these prices").click()
    await expect(page.get_by_text("greater than or equal to 0")).to_be_visible()
    await prompt.fill(str(before + 1))
    await page.get_by_role("button", name="Set these prices").click()
    await expect(page.get_by_text("of the prices is set")).to_be_visible()
    assert Decimal(await prompt.input_value()) == before + 1


async def test_finance_finds_no_way_to_keys_or_the_fleet(site: Site, browser: Browser) -> None:
    page = (await open_page(browser, base=site.url)).page
    await sign_in(page, site, "finance")
    for name in ("Keys", "Live", "Fleet", "Quotas"):
        assert await page.get_by_role("link", name=name, exact=True).count() == 0
    for path in ("/keys/", "/credentials/", "/ops/live/", "/quotas/", "/try/", "/members/"):
        response = await page.goto(path)
        assert response is not None
        assert response.status == 403, path
