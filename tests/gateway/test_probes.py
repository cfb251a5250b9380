"""Replicas' own figures: read from each engine's page, averaged, and unknown when stale."""

import asyncio
import ipaddress
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from scheduler.addresses import Network, allows
from scheduler.core.events import Measured
from scheduler.core.fleet import FleetSnapshot, ReplicaFacts
from scheduler.emulator.app import listen
from scheduler.emulator.settings import Settings
from scheduler.engines import engine
from scheduler.probes import Probes
from scheduler.probing.answer import MOST_BODY_BYTES
from scheduler.probing.fetching import Fetcher
from scheduler.probing.messages import Figures
from scheduler.probing.paging import Paging, Watched
from scheduler.probing.prober import Prober
from scheduler.readings import Reading, Window, merged, read

from .harness import EVERYWHERE, furnished, gate, replica
from .stub import Seen, Stub, Wire, stub

VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="org/Model-7B"} 5.0
vllm:num_requests_running{engine="1",model_name="org/Model-7B"} 2.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="org/Model-7B"} 3.0
vllm:num_requests_waiting{engine="1",model_name="org/Model-7B"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 77.0
vllm:kv_cache_usage_perc{engine="0",model_name="org/Model-7B"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="org/Model-7B"} 0.25
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.001"} 0.0
"""
VLLM_CACHE = """\
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_cpu_blocks="None",\
num_gpu_blocks="573",num_gpu_blocks_override="None"} 1.0
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="1",num_gpu_blocks="600"} 1.0
"""
NEW_VLLM_CACHE = """\
vllm:cache_config_info{block_size="16",kv_cache_size_tokens="90000",num_gpu_blocks="9000"} 1.0
"""
NO_CACHE_YET = """\
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="None"} 1.0
"""
ODD_CACHES = """\
vllm:cache_config_info{block_size="-16",num_gpu_blocks="9"} 1.0
vllm:cache_config_info{block_size="16",num_gpu_blocks="9e400"} 1.0
vllm:cache_config_info{kv_cache_size_tokens="99999999999999999999999999"} 1.0
vllm:cache_config_info{num_gpu_blocks="9"} 1.0
vllm:cache_config_info{block_size="0",num_gpu_blocks="9"} 1.0
vllm:cache_config_info 7.0
"""
OLD_VLLM = """\
vllm:num_requests_running{model_name="m"} 1.0
vllm:num_requests_waiting{model_name="m"} 0.0
vllm:gpu_cache_usage_perc{model_name="m"} 0.125
vllm:cpu_cache_usage_perc{model_name="m"} 0.9
"""
SGLANG = """\
sglang:num_running_reqs{model_name="m"} 4.0
sglang:num_queue_reqs{model_name="m"} 9.0
sglang:token_usage{model_name="m"} 0.75
"""
SGLANG_CACHE = """\
sglang:max_total_num_tokens{dp_rank="0",tp_rank="0"} 471258.0
sglang:max_total_num_tokens{dp_rank="0",tp_rank="1"} 471258.0
sglang:max_total_num_tokens{dp_rank="1",tp_rank="0"} 471000.0
"""
ODD = """\
vllm:num_requests_running{a="}",b="x 9",c="\\\\"} 4 1700000000000
vllm:num_requests_running{ a="say \\"{\\"", }   6.0e0
vllm:num_requests_waiting {a="b"}\t5
vllm:num_requests_waiting_total{a="b"} 5
# vllm:num_requests_waiting 7
"""
LLAMACPP = """\
llamacpp:requests_processing 2
llamacpp:requests_deferred 6
"""
TGI = """\
tgi_batch_current_size 3
tgi_queue_size 1
"""
TRITON = """\
nv_inference_pending_request_count{model="m",version="1"} 2
nv_gpu_utilization{gpu_uuid="GPU-1"} 0.5
"""
DCGM = """\
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1"} 80
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-2"} 40
DCGM_FI_DEV_FB_USED{gpu="0"} 30000
DCGM_FI_DEV_FB_FREE{gpu="0"} 10000
"""


@pytest.mark.parametrize(
    ("name", "page", "expected"),
    [
        ("vllm", VLLM, Reading(None, 0.375, 7, 3)),
        ("vllm", OLD_VLLM, Reading(None, 0.125, 1, 0)),
        ("vllm", VLLM + VLLM_CACHE, Reading(None, 0.375, 7, 3, 16 * 1173)),
        ("vllm", NEW_VLLM_CACHE, Reading(cache_tokens=90_000)),
        ("vllm", NO_CACHE_YET, Reading()),
        ("vllm", ODD_CACHES, Reading()),
        ("sglang", SGLANG_CACHE, Reading(cache_tokens=942_258)),
        ("sglang", VLLM_CACHE, Reading()),
        ("sglang", SGLANG, Reading(None, 0.75, 4, 9)),
        ("llamacpp", LLAMACPP, Reading(None, None, 2, 6)),
        ("tgi", TGI, Reading(None, None, 3, 1)),
        ("oip", TRITON, Reading(0.5, None, None, 2)),
        ("openai", DCGM, Reading(0.6, 0.75, None, None)),
        ("vllm", VLLM + DCGM, Reading(0.6, 0.375, 7, 3)),
        ("vllm", ODD, Reading(None, None, 10, 5)),
        ("vllm", "", Reading()),
        ("vllm", '{"status": "ok"}', Reading()),
        ("vllm", "vllm:kv_cache_usage_perc NaN\nvllm:num_requests_waiting +Inf\n", Reading()),
        ("vllm", "vllm:kv_cache_usage_perc 1.5\n", Reading(None, 1.0, None, None)),
        ("openai", "DCGM_FI_DEV_FB_USED 0\nDCGM_FI_DEV_FB_FREE 0\n", Reading()),
    ],
)
def test_each_engine_s_page_is_read(name: str, page: str, expected: Reading) -> None:
    assert read(page, engine(name).metrics) == expected


@pytest.mark.parametrize(
    "line",
    [
        "vllm:num_requests_running",
        "vllm:num_requests_running{ 1",
        'vllm:num_requests_running{a="b} 1',
        "vllm:num_requests_running one",
    ],
)
def test_a_page_that_is_none_is_said_to_be(line: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        read(line, engine("vllm").metrics)


def test_the_first_page_s_word_counts() -> None:
    assert merged(Reading(None, 0.5, 1, None), Reading(0.6, 0.9, None, None, 9)) == Reading(
        0.6, 0.5, 1, None, 9
    )


def test_means_of_ten_seconds_and_unknown_beyond() -> None:
    window = Window()
    assert window.mean(0.0, 10) == Reading()
    window.add(Reading(0.2, None, 1, 0), 0.0)
    window.add(Reading(0.4, 0.5, 2, 0), 3.0)
    window.add(Reading(0.9, None, 3, 3), 6.0)
    assert window.mean(6.0, 10) == Reading(0.5, 0.5, 2, 1)
    assert window.mean(10.5, 10) == Reading(0.65, 0.5, 2.5, 1.5)
    assert window.mean(16.0, 10) == Reading(0.9, None, 3, 3)
    # Not idle: unknown.
    assert window.mean(16.001, 10) == Reading()


def card(url: str) -> ReplicaFacts:
    """A replica of eight slots whose card has a page of its own."""
    return replace(replica(url, slots=8), dcgm_url=url + "/dcgm")


class Pages:
    """A stub's GET side: pages by path, changed at will."""

    def __init__(self, **pages: str) -> None:
        self.pages = {f"/{name}": text for name, text in pages.items()}
        self.asked: list[str] = []
        self.hold = asyncio.Event()
        self.hold.set()

    async def __call__(self, seen: Seen, wire: Wire) -> None:
        self.asked.append(seen.path)
        await self.hold.wait()
        page = self.pages.get(seen.path)
        if page is None:
            await wire.json({"status": "ok"}, 200 if seen.path == "/health" else 404)
        else:
            await wire.answer(page.encode(), kind="text/plain; version=0.0.4")


@pytest.fixture
async def server() -> AsyncIterator[Stub]:
    async with stub() as running:
        yield running


class Heard:
    """Readings taken here, in place of the probing process, and what was told of them."""

    def __init__(self, networks: Sequence[Network] = EVERYWHERE) -> None:
        self.last: dict[str, Measured] = {}
        self.news = asyncio.Event()
        self.prober = Prober(networks)
        self.probes = Probes(self._hear, self.prober)
        self.fetcher = Fetcher(allows(networks))
        self.faults: list[str] = []
        self.paging = Paging(self.fetcher, self._told, lambda number: None, self.faults.append)
        self.paging.window_s = 10.0
        self._watched: dict[int, Watched] = {}

    def _told(self, number: int, mean: Reading, problem: str) -> None:
        self.prober.on_figures(Figures(number, mean, problem))

    def _hear(self, event: Measured) -> None:
        self.last[event.replica] = event
        self.news.set()

    def watch(self, *replicas: ReplicaFacts) -> None:
        self.probes.watch(FleetSnapshot(replicas={facts.name: facts for facts in replicas}))

    async def round(self) -> None:
        """Read every replica once."""
        ordered = self.prober._standing.read
        for number, (urls, name) in ordered.items():
            if number not in self._watched:
                self._watched[number] = Watched(urls, name)
            self.paging.begin(number, self._watched[number])
        await asyncio.gather(*self.paging._open)
        assert not self.faults

    async def close(self) -> None:
        await self.paging.close()
        await self.fetcher.close()


@pytest.fixture
async def heard() -> AsyncIterator[Heard]:
    found = Heard()
    yield found
    await found.close()


async def test_engine_and_card_together(server: Stub, heard: Heard) -> None:
    server.health = pages = Pages(metrics=VLLM, dcgm=DCGM)
    heard.watch(card(server.url))
    await heard.round()
    assert heard.last["r1"] == Measured("r1", 0.6, 0.375, 3)
    assert sorted(pages.asked) == ["/dcgm", "/metrics"]


async def test_another_address_for_metrics(server: Stub, heard: Heard) -> None:
    server.health = Pages(other=SGLANG)
    heard.watch(replace(replica(server.url, engine="sglang"), metrics_url=server.url + "/other"))
    await heard.round()
    assert heard.last["r1"] == Measured("r1", None, 0.75, 9)


async def test_a_page_that_fails_is_no_sample_and_is_logged_once(
    server: Stub, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "scheduler.probes")
    server.health = pages = Pages(metrics=VLLM)
    heard.watch(replica(server.url, slots=8))
    await heard.round()
    for bad in ("vllm:num_requests_running{", "x" * (MOST_BODY_BYTES + 1)):
        pages.pages["/metrics"] = bad
        for _ in range(2):
            await heard.round()
            assert heard.last["r1"] == Measured("r1", None, 0.375, 3)
    assert len(caplog.records) == 1
    pages.pages["/metrics"] = VLLM
    await heard.round()
    del pages.pages["/metrics"]
    await heard.round()
    assert "answered 404" in caplog.records[-1].getMessage()
    assert len(caplog.records) == 2


async def test_stale_is_unknown(server: Stub, heard: Heard) -> None:
    server.health = pages = Pages(metrics=VLLM)
    heard.paging.window_s = 0.2
    heard.watch(replica(server.url))
    await heard.round()
    assert heard.last["r1"].queue == 3
    del pages.pages["/metrics"]

    def known() -> bool:
        return heard.last["r1"].queue is not None

    async with asyncio.timeout(5):
        while known():
            await heard.round()
    assert heard.last["r1"] == Measured("r1", None, None, None)


async def test_one_that_hangs_holds_up_no_other(server: Stub, heard: Heard) -> None:
    server.health = pages = Pages(metrics=VLLM)
    pages.hold.clear()
    async with stub() as other:
        other.health = Pages(metrics=VLLM)
        heard.watch(replica(server.url, name="slow"), replica(other.url, name="fast"))
        round_ = asyncio.create_task(heard.round())
        async with asyncio.timeout(1.5):
            await heard.news.wait()
        assert list(heard.last) == ["fast"]
        await round_
        assert heard.last["slow"] == Measured("slow", None, None, None)


async def test_an_address_that_is_not_allowed_is_not_read(server: Stub) -> None:
    server.health = pages = Pages(metrics=VLLM, dcgm=DCGM)
    heard = Heard([ipaddress.ip_network("127.0.0.1/32")])
    elsewhere = server.url.replace("127.0.0.1", "127.0.0.2")
    heard.watch(replace(replica(server.url), dcgm_url=elsewhere + "/dcgm"))
    await heard.round()
    assert pages.asked == ["/metrics"]
    assert heard.last["r1"].queue == 3
    await heard.close()


async def test_a_replica_that_left_or_moved_is_forgotten(server: Stub, heard: Heard) -> None:
    server.health = Pages(metrics=VLLM, other="")
    heard.watch(replica(server.url))
    await heard.round()
    heard.watch(replace(replica(server.url), metrics_url=server.url + "/other"))
    await heard.round()
    assert heard.last["r1"] == Measured("r1", None, None, None)
    heard.last.clear()
    heard.watch()
    await heard.round()
    assert not heard.last


async def test_somebody_else_s_requests_are_noticed(
    server: Stub, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    server.health = Pages(metrics=VLLM)
    heard.watch(replica(server.url, slots=4))
    for _ in range(3):
        await heard.round()
    told = [record.getMessage() for record in caplog.records]
    assert told == ["replica r1 runs 7 requests on 4 slots: somebody else uses it too"]


async def test_the_running_gateway_shows_and_exports_them(server: Stub) -> None:
    server.health = pages = Pages(metrics=VLLM, dcgm=DCGM)
    memory = furnished(card(server.url))
    async with gate(memory) as running:
        state = running.runtime.scheduler.state
        await running.until(lambda: state.replicas["r1"].queue == 3)
        assert (state.replicas["r1"].gpu, state.replicas["r1"].memory) == (0.6, 0.375)
        text = (await running.client.get("/metrics")).text
        assert 'fairlane_replica_gpu_util_ratio{replica="r1"} 0.6' in text
        assert 'fairlane_replica_memory_util_ratio{replica="r1"} 0.375' in text
        assert 'fairlane_replica_queue_depth{replica="r1"} 3.0' in text
        (shown,) = running.runtime._publisher.frame().replicas
        assert (shown.gpu, shown.memory, shown.queue) == (0.6, 0.375, 3)
        # Another page that is none: what the first one said is forgotten.
        running.memory.replica(replace(card(server.url), metrics_url=server.url + "/none"))
        pages.pages.clear()
        running.memory.tell("fleet")
        await running.until(lambda: state.replicas["r1"].queue is None)
        text = (await running.client.get("/metrics")).text
        assert 'replica_gpu_util_ratio{replica="r1"}' not in text


async def test_slots_hold_whatever_the_metrics_say(server: Stub) -> None:
    """Eight slots: it never sees a ninth request, though it says that it idles."""
    idle = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0\n"
    server.health = Pages(metrics=idle)
    release = asyncio.Event()
    polite = server.answer

    async def held(seen: Seen, wire: Wire) -> None:
        await release.wait()
        await polite(seen, wire)

    server.answer = held
    async with gate(furnished(replica(server.url, slots=8))) as running:
        state = running.runtime.scheduler.state
        calls = [asyncio.create_task(running.chat()) for _ in range(20)]
        await running.until(lambda: len(server.seen) == 8)
        await running.until(lambda: sum(running.runtime.scheduler.state.lane_queued) == 12)
        await running.until(lambda: state.replicas["r1"].queue == 0)
        assert len(server.seen) == 8
        release.set()
        assert {(await call).status_code for call in calls} == {200}
    assert server.most == 8


async def test_the_emulator_s_pages_are_read(heard: Heard) -> None:
    async with listen(Settings(), "127.0.0.1", 0) as emulator:
        heard.watch(replace(replica(emulator.url), dcgm_url=emulator.url + "/dcgm/metrics"))
        await heard.round()
        found = heard.last["r1"]
        assert found == Measured("r1", 0.0, 0.0, 0, Settings().service.kv_tokens)
