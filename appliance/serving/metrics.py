"""Prometheus metrics; every label takes a bounded number of values."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST
MAX_KEYS = 64
WORK = ("/embeddings", "/rerank", "/classify")
_KEY = re.compile(r"[\w.-]{1,64}")
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_TOKENS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 8192)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class ModelMetrics:
    """What is counted in every pass of one model, found by its label once."""

    tokens: Counter
    texts: Counter
    batch_texts: Histogram
    batch_tokens: Histogram
    forward: Histogram
    failures: Counter


class Metrics:
    """What is counted.

    ``key`` is the name the gate gives the caller's API key (X-Infinity-Key-Name), never the
    key; the first MAX_KEYS names keep their own, later ones are counted as ``other``.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._keys: set[str] = set()
        counter, gauge, histogram = self._counter, self._gauge, self._histogram
        self.requests = counter("requests", "Requests answered.", "route", "status", "key")
        self.seconds = histogram("request_seconds", "Time to answer.", _SECONDS, "route")
        self.tokens = counter("tokens", "Tokens the model read for requests.", "model")
        self.texts = counter("texts", "Texts embedded, scored or classified.", "model")
        self.truncated = counter("truncated_inputs", "Texts cut to the window.", "model")
        self.batch_texts = histogram("batch_texts", "Texts in a forward pass.", _TEXTS, "model")
        self.batch_tokens = histogram("batch_tokens", "Tokens in a forward pass.", _TOKENS, "model")
        self.forward = histogram("forward_seconds", "Time of a forward pass.", _SECONDS, "model")
        self.failures = counter("forward_failures", "Forward passes that raised.", "model")
        self.load = gauge("model_load_seconds", "Time from the disk to a first answer.", "model")
        self.ready = gauge("ready", "1 while the canary comes back.")
        self.canary = gauge("canary_seconds", "Time of the last canary.")

    def of(self, model: str) -> ModelMetrics:
        """Those of one model, which stand at 0 from now on."""
        self.truncated.labels(model)
        return ModelMetrics(
            tokens=self.tokens.labels(model),
            texts=self.texts.labels(model),
            batch_texts=self.batch_texts.labels(model),
            batch_tokens=self.batch_tokens.labels(model),
            forward=self.forward.labels(model),
            failures=self.failures.labels(model),
        )

    def watch(self, name: str, text: str, value: Callable[[], float]) -> None:
        """A gauge that is read when it is asked for."""
        self._gauge(name, text).set_function(value)

    def key(self, name: str) -> str:
        """The label for a caller."""
        if not name:
            return "none"
        if name not in self._keys:
            if len(self._keys) >= MAX_KEYS or not _KEY.fullmatch(name):
                return "other"
            self._keys.add(name)
        return name

    def work(self) -> dict[str, tuple[int, float]]:
        """Each route that does work: its requests so far, and their mean time in seconds."""
        found = {}
        for route in WORK:
            value = self.registry.get_sample_value
            count = value("infinity_request_seconds_count", {"route": route}) or 0.0
            total = value("infinity_request_seconds_sum", {"route": route}) or 0.0
            found[route] = (int(count), total / max(count, 1.0))
        return found

    def page(self) -> bytes:
        """The text that Prometheus scrapes."""
        return generate_latest(self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"infinity_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"infinity_{name}", text, labels, registry=self.registry)

    def _histogram(
        self, name: str, text: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        return Histogram(f"infinity_{name}", text, labels, buckets=buckets, registry=self.registry)
