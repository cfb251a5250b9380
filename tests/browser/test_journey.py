"""From signing in to a request that an operator sees: the main path, in a real browser."""

import asyncio
import re
import time

import httpx
import pytest
from playwright.async_api import Browser, expect

from .conftest import Site
from .pages import open_page, sign_in, until_live

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

WITHIN_S = 20.0


def ask(site: Site, key: str) -> httpx.Response:
    """A small answer. The gateway hears of a new key within two seconds; a busy machine may
    take longer."""
    until = time.monotonic() + WITHIN_S
    while True:
        answer = httpx.post(
            f"{site.url}/v1/chat/completions",
            headers={"Authorization": f"Bearer {key}"},
            json={
                "model": "chat",
                "messages": [{"role": "user", "content": "Say hello in five words."}],
                "max_tokens": 8,
            },
            timeout=WITHIN_S,
        )
        if answer.status_code != 401 or time.monotonic() > until:
            return answer
        time.sleep(0.2)


async def test_a_new_key_works_and_its_request_appears_live(site: Site, browser: Browser) -> None:
    operator = (await open_page(browser, base=site.url)).page
    await sign_in(operator, site, "operator")
    await operator.wait_for_url("**/ops/live/")
    await until_live(operator)

    watched = await open_page(browser, base=site.url)
    owner = watched.page
    await sign_in(owner, site, "owner")
    await owner.get_by_role("link", name="Keys", exact=True).click()
    await owner.get_by_label("Name").fill("from the browser test")
    await owner.get_by_role("button", name="Create key").click()
    shown = owner.get_by_label("The key", exact=True)
    key = await shown.input_value()
    assert re.fullmatch(r"fl_live_\w{43}", key)
    await expect(owner.get_by_role("heading", name="New key")).to_be_focused()

    answer = ask(site, key)
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"]
    request = answer.headers["X-Request-Id"]
    line = operator.get_by_role("listitem").filter(has_text=request)
    await expect(line.first).to_be_visible(timeout=WITHIN_S * 1_000)
    assert "risk-audit" in await line.first.inner_text()

    # The owner sees it among their own, and once the record is written also on paper.
    await owner.goto("/")
    await until_live(owner)
    own = owner.get_by_role("listitem").filter(has_text=request)
    await expect(own.first).to_be_visible(timeout=WITHIN_S * 1_000)
    recorded = owner.get_by_role("table").get_by_text(f"{key[:12]}…").first
    for _ in range(int(WITHIN_S)):
        if await recorded.count():
            break
        await owner.wait_for_timeout(1_000)
        await owner.reload()
    await expect(recorded).to_be_visible()
    assert watched.complaints == []


async def test_the_snippet_works_as_pasted(site: Site, browser: Browser) -> None:
    page = (await open_page(browser, base=site.url)).page
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await sign_in(page, site, "owner")
    await page.goto("/keys/")
    await page.get_by_label("Name").fill("snippets")
    await page.get_by_role("button", name="Create key").click()
    key = await page.get_by_label("The key", exact=True).input_value()
    await page.get_by_role("button", name="Copy").first.click()
    await expect(page.locator("#copy-status")).to_have_text("Copied")
    assert await page.evaluate("navigator.clipboard.readText()") == key
    for name in ("curl", "Python", "Node.js"):
        await page.get_by_role("tab", name=name).click()
        pane = page.get_by_role("tabpanel", name=name)
        await expect(pane).to_be_visible()
        code = await pane.locator("code").inner_text()
        assert key in code
        assert f"{site.url}/v1" in code
        assert "chat" in code


async def test_a_key_is_shown_once_and_can_be_ended(site: Site, browser: Browser) -> None:
    page = (await open_page(browser, base=site.url)).page
    await sign_in(page, site, "owner")
    await page.goto("/keys/")
    await page.get_by_label("Name").fill("to be ended")
    await page.get_by_role("button", name="Create key").click()
    key = await page.get_by_label("The key", exact=True).input_value()
    assert ask(site, key).status_code == 200

    await page.reload()
    assert key not in await page.content()
    await page.goto("/keys/")
    assert key not in await page.content()

    row = page.get_by_role("row").filter(has_text="to be ended")
    await row.get_by_role("link", name="Rotate").click()
    await page.get_by_label("The old key keeps working for").select_option(
        "No time: it stops at once"
    )
    await page.get_by_role("button", name="Rotate key").click()
    successor = await page.get_by_label("The key", exact=True).input_value()
    assert successor != key
    await expect_status(site, key, 401)
    await expect_status(site, successor, 200)

    await page.get_by_role("link", name="back to the keys").click()
    row = page.get_by_role("row").filter(has_text="to be ended").filter(has_text="Working")
    await row.get_by_role("link", name="Revoke").click()
    await page.get_by_role("button", name="Revoke key").click()
    await expect(page.get_by_role("status").filter(has_text="is revoked")).to_be_visible()
    await expect_status(site, successor, 401)


async def expect_status(site: Site, key: str, status: int) -> None:
    """The gateway follows a change within two seconds; a busy machine gets some grace."""
    async with httpx.AsyncClient(base_url=site.url) as client:
        end = time.monotonic() + WITHIN_S
        while (await client.get("/v1/models", headers={"x-api-key": key})).status_code != status:
            assert time.monotonic() < end, f"never came to {status}"
            await asyncio.sleep(0.1)


async def test_an_owner_finds_no_way_to_the_operators_pages(site: Site, browser: Browser) -> None:
    page = (await open_page(browser, base=site.url)).page
    await sign_in(page, site, "owner")
    assert await page.get_by_role("link", name="Live").count() == 0
    response = await page.goto("/ops/live/")
    assert response is not None
    assert response.status == 403
    await expect(page.get_by_role("heading", name="Not allowed")).to_be_visible()


async def test_no_credential_travels_in_an_address_or_reaches_a_log(
    site: Site, browser: Browser
) -> None:
    """G08, F01."""
    page = (await open_page(browser, base=site.url)).page
    sockets: list[str] = []
    page.on("websocket", lambda socket: sockets.append(socket.url))
    await sign_in(page, site, "owner")
    await until_live(page)
    await page.goto("/keys/")
    await page.get_by_label("Name").fill("not in a log")
    await page.get_by_role("button", name="Create key").click()
    key = await page.get_by_label("The key", exact=True).input_value()
    assert ask(site, key).status_code == 200
    await page.goto("/")
    await until_live(page)
    assert sockets
    assert set(sockets) == {f"{site.url.replace('http', 'ws', 1)}/ws/live/"}
    entries = await page.evaluate("performance.getEntries().map((entry) => entry.name).join('\\n')")
    secrets = [cookie["value"] for cookie in await page.context.cookies()]
    secrets += [key, site.logins["owner"][1]]
    for secret in secrets:
        assert secret not in entries
        assert secret not in site.logs()
