"""The engine's figures as Prometheus text: vLLM's names, and a DCGM exporter's for the card."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric

from .blocks import BLOCK_TOKENS
from .counters import Tally
from .engine import Engine

MIB_PER_GB = 1024
# What weights and activations take of the card; KV blocks in use come on top.
WEIGHTS_SHARE = 0.45
KV_SHARE = 0.45


class EngineCollector:
    """vLLM's metrics of one engine, labelled with its first model."""

    def __init__(self, engine: Engine, model: str) -> None:
        self._engine = engine
        self._labels = {"model_name": model, "engine": "0"}

    def collect(self) -> Iterator[Metric]:
        """All of them, as they stand."""
        engine, counters = self._engine, self._engine.counters
        yield self._gauge("num_requests_running", "Requests in the batch", len(engine.running))
        yield self._gauge("num_requests_waiting", "Requests waiting", len(engine.waiting))
        yield self._gauge("kv_cache_usage_perc", "KV blocks in use, 1 is all", kv_usage(engine))
        yield self._gauge("engine_sleep_state", "Awake", 1, sleep_state="awake")
        yield self._gauge("cache_config_info", "Information of the cache", 1, **self._cache())
        for name, text, value in (
            ("num_preemptions", "Preemptions", counters.preemptions),
            ("prefix_cache_queries", "Prompt tokens looked up", counters.prefix_queries),
            ("prefix_cache_hits", "Prompt tokens found", counters.prefix_hits),
            ("prompt_tokens", "Prompt tokens processed", counters.prompt_tokens),
            ("generation_tokens", "Tokens generated", counters.generation_tokens),
        ):
            yield self._counter(name, text, value)
        success = CounterMetricFamily(
            "vllm:request_success", "Requests ended", labels=[*self._labels, "finished_reason"]
        )
        for reason, value in counters.finished.items():
            success.add_metric([*self._labels.values(), reason], value)
        yield success
        for name, text, tally in (
            ("request_queue_time_seconds", "Seconds waiting", counters.queue_time),
            ("time_to_first_token_seconds", "Seconds to the first token", counters.first_token),
            ("inter_token_latency_seconds", "Seconds between tokens", counters.step),
            ("e2e_request_latency_seconds", "Seconds in all", counters.whole),
        ):
            yield self._histogram(name, text, tally)

    def _cache(self) -> dict[str, str]:
        return {
            "block_size": str(BLOCK_TOKENS),
            "cache_dtype": "auto",
            "enable_prefix_caching": "True",
            "num_gpu_blocks": str(self._engine.pool.capacity),
            "num_gpu_blocks_override": "None",
        }

    def _gauge(self, name: str, text: str, value: float, **labels: str) -> Metric:
        every = self._labels | labels
        family = GaugeMetricFamily(f"vllm:{name}", text, labels=list(every))
        family.add_metric(list(every.values()), value)
        return family

    def _counter(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(f"vllm:{name}", text, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), value)
        return family

    def _histogram(self, name: str, text: str, tally: Tally) -> Metric:
        family = HistogramMetricFamily(f"vllm:{name}", text, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), tally.cumulative(), tally.sum)
        return family


class CardCollector:
    """A DCGM exporter's gauges for the emulated card."""

    def __init__(self, engine: Engine, memory_gb: float) -> None:
        self._engine = engine
        self._memory_mib = memory_gb * MIB_PER_GB
        self._labels = {"gpu": "0", "UUID": "GPU-emulated", "modelName": "Fairlane emulated card"}
        self.now = 0.0

    def collect(self) -> Iterator[Metric]:
        """Utilisation of the last second in percent, memory in MiB."""
        used = self._memory_mib * (WEIGHTS_SHARE + KV_SHARE * kv_usage(self._engine))
        for name, text, value in (
            ("GPU_UTIL", "GPU utilisation (%)", self._engine.counters.utilisation(self.now) * 100),
            ("FB_USED", "Memory used (MiB)", used),
            ("FB_FREE", "Memory free (MiB)", self._memory_mib - used),
        ):
            family = GaugeMetricFamily(f"DCGM_FI_DEV_{name}", text, labels=list(self._labels))
            family.add_metric(list(self._labels.values()), round(value, 1))
            yield family


def kv_usage(engine: Engine) -> float:
    """KV blocks in use, as a ratio 0-1."""
    return engine.pool.used / engine.pool.capacity


class Exposition:
    """Both pages."""

    def __init__(self, engine: Engine, model: str, memory_gb: float) -> None:
        self._engine_registry = CollectorRegistry(auto_describe=False)
        self._engine_registry.register(EngineCollector(engine, model))
        self._card = CardCollector(engine, memory_gb)
        self._card_registry = CollectorRegistry(auto_describe=False)
        self._card_registry.register(self._card)

    def engine(self) -> bytes:
        """What vLLM shows on /metrics."""
        return generate_latest(self._engine_registry)

    def card(self, now: float) -> bytes:
        """What a DCGM exporter shows, at ``now`` of the loop's clock."""
        self._card.now = now
        return generate_latest(self._card_registry)
