"""The live page when the network is cut, and its state against the one that Python computes."""

import asyncio
import contextlib
import json
import os
import random
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, Page, expect

from console.live.board import OPERATIONS, Audience, Board
from tests.console.frames import FrameSource
from tests.console.live_client import decoded, fresh

from .conftest import Site
from .pages import open_page, sign_in, until_live

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]
# Seconds for which the network is away.
CUT_S = 30 if os.environ.get("FAIRLANE_LONG_TESTS") == "1" else 5

FIGURES = """() => {
  const texts = (selector) =>
    [...document.querySelectorAll(selector)].map((each) => each.textContent);
  return {
    at: document.querySelector("[data-live-at]").textContent,
    figures: texts("[data-lane] [data-field]"),
    feed: texts('[data-list="feed"] li'),
    replicas: texts('[data-list="replicas"] tr'),
  };
}"""
FOLD = """async (messages) => {
  const { applyMessage } = await import("/static/js/live-state.js");
  let state = null;
  for (const message of messages) {
    const next = applyMessage(state, message);
    if (next === null) return "gap";
    if (message.type === "update" && applyMessage(next, message) !== next) return "doubled";
    state = next;
  }
  return JSON.stringify(state);
}"""


class Cable:
    """A TCP relay to the site that can be cut, quietly or not, and mended."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.frozen = asyncio.Event()
        self.frozen.set()
        self.cut_off = False
        self.tasks: set[asyncio.Task[None]] = set()
        self.writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.cut_off:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self.target)
        self.writers |= {writer, back}
        for source, sink in ((reader, back), (there, writer)):
            task = asyncio.create_task(self.pump(source, sink))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65_536):
                await self.frozen.wait()
                sink.write(data)
                await sink.drain()
        sink.close()

    def cut(self) -> None:
        self.cut_off = True
        for writer in self.writers:
            writer.transport.abort()
        self.writers.clear()

    def mend(self) -> None:
        self.cut_off = False
        self.frozen.set()

    def freeze(self) -> None:
        """Nothing more comes through, and nobody is told: a laptop that sleeps."""
        self.frozen.clear()


@pytest.fixture
async def cable(site: Site) -> AsyncIterator[Cable]:
    cable = Cable(int(site.url.rpartition(":")[2]))
    server = await asyncio.start_server(cable.serve, "127.0.0.1", 0)
    cable.port = server.sockets[0].getsockname()[1]
    yield cable
    server.close()
    cable.cut()
    for task in list(cable.tasks):
        task.cancel()
    await asyncio.gather(*cable.tasks, return_exceptions=True)


async def same_moment(one: Page, other: Page) -> bool:
    """Whether two pages, looked at while they show the same second, show the same."""
    for _ in range(40):
        first, second = await asyncio.gather(one.evaluate(FIGURES), other.evaluate(FIGURES))
        if first["at"] and first["at"] == second["at"]:
            return bool(first == second)
        await asyncio.sleep(0.25)
    raise AssertionError("the pages never showed the same second")


async def test_a_cut_is_said_and_after_it_the_page_equals_a_fresh_one(
    site: Site, browser: Browser, cable: Cable
) -> None:
    """Case G04: what was missed while the network was away is neither lost nor doubled."""
    page = (await open_page(browser)).page
    base = f"http://127.0.0.1:{cable.port}"
    await sign_in(page, site, "operator", base)
    await until_live(page)
    cable.cut()
    status = page.locator("[data-live-status]")
    await expect(status).to_contain_text("Connection lost")
    numbers = page.locator("[data-live-numbers]")
    await expect(numbers).to_have_css("filter", "grayscale(1)")
    await expect(numbers).to_have_attribute("aria-busy", "true")
    before = await page.evaluate(FIGURES)
    await asyncio.sleep(CUT_S)  # decisions are made meanwhile, by the demo's own traffic
    assert await page.evaluate(FIGURES) == before, "old numbers must not look alive"
    cable.mend()
    await until_live(page, 30)
    await expect(numbers).to_have_css("filter", "none")

    other = (await open_page(browser)).page
    await sign_in(other, site, "operator")
    await until_live(other)
    assert await same_moment(page, other)


async def test_a_connection_that_dies_quietly_is_noticed_and_replaced(
    site: Site, browser: Browser, cable: Cable
) -> None:
    page = (await open_page(browser)).page
    await sign_in(page, site, "operator", f"http://127.0.0.1:{cable.port}")
    await until_live(page)
    cable.freeze()
    status = page.locator("[data-live-status]")
    await expect(status).to_contain_text("silent", timeout=15_000)
    await expect(status).to_contain_text("Connection lost", timeout=20_000)
    cable.cut()
    cable.mend()
    await until_live(page, 30)


async def test_signing_out_elsewhere_ends_the_page(site: Site, browser: Browser) -> None:
    page = (await open_page(browser, base=site.url)).page
    await sign_in(page, site, "operator")
    await until_live(page)
    second = await page.context.new_page()
    await second.goto("/ops/live/")
    await second.get_by_role("button", name="Account").click()
    await second.get_by_role("button", name="Sign out").click()
    await second.wait_for_url("**/accounts/login/**")
    await expect(page.locator("[data-live-status]")).to_contain_text(
        "session is over", timeout=60_000
    )
    await page.get_by_role("link", name="Sign in again").click()
    await page.wait_for_url("**/accounts/login/?next=/ops/live/")


@pytest.mark.parametrize("audience", [OPERATIONS, Audience("alpha")], ids=["operations", "owner"])
async def test_the_script_adds_updates_up_as_a_fresh_snapshot_would(
    site: Site, browser: Browser, audience: Audience
) -> None:
    rng = random.Random(11)
    source, board = FrameSource(), Board()
    told, cursor = [], None
    for step in range(300):
        if step == 200:
            source.epoch, source.seq = "e2", 0
        source.at += rng.choice((0,) * 20 + (9_000, 400_000))
        board.apply(source.next(rng.choice((None, ["alpha"], ["beta"], []))))
        if rng.random() < 0.5 or step == 299:
            told.append(decoded(board.message(audience, cursor)))
            cursor = board.cursor
    lost = [*told[:5], *told[6:]]
    page = (await open_page(browser)).page
    await page.goto(f"{site.url}/accounts/login/")
    assert json.loads(await page.evaluate(FOLD, told)) == fresh(board.message(audience, None))
    assert await page.evaluate(FOLD, lost) == "gap"
