"""What a server counts, for Prometheus. No label holds anything that a client chose."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

METHODS = ("GET", "HEAD", "POST", "OPTIONS")


class Metrics:
    """The numbers of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "transduce_requests",
            "Answers by route, method and status.",
            ["route", "method", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "transduce_request_seconds",
            "From a request's head to the end of its answer.",
            ["route"],
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=self.registry,
        )
        self.batches = Histogram(
            "transduce_batch_sentences",
            "Sentences of a batch.",
            buckets=(1, 2, 4, 8, 16, 32, 64),
            registry=self.registry,
        )
        self.busy = Counter("transduce_busy_seconds", "Of all workers together.", registry=self.registry)
        self.tokens = Counter("transduce_source_tokens", "That were translated.", ["model"], registry=self.registry)
        self.cached = Counter("transduce_cache_hits", "Sentences found in the cache.", registry=self.registry)

    def watch(self, *, waiting: Callable[[], float], pending: Callable[[], float]) -> None:
        """Numbers that are looked up when they are asked for."""
        gauge = Gauge("transduce_queue_sentences", "Sentences that wait.", registry=self.registry)
        gauge.set_function(waiting)
        gauge = Gauge(
            "transduce_pending_requests", "Requests that were accepted and not answered.", registry=self.registry
        )
        gauge.set_function(pending)

    def batch(self, jobs: int, seconds: float) -> None:
        """A worker has done a batch."""
        self.batches.observe(jobs)
        self.busy.inc(seconds)

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """A request is over."""
        self.requests.labels(route, method if method in METHODS else "other", str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def page(self) -> bytes:
        """As Prometheus reads it."""
        return generate_latest(self.registry)
