"""Owns `/metrics`: what the runtime has counted, in the form of Prometheus. Counts nothing itself, and keeps nothing.

Everything is read when somebody scrapes, so the way of an execution knows nothing of it.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import anyio.to_thread
from fastapi import APIRouter, Depends, Request, Response
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from ..actors import Runtime
from .auth import Principal, principal
from .given import check_is
from .hosted import Hosted, hosted
from .problems import Refused, problems
from .strict_route import StrictRoute

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client.core import Metric

    from ..actors.health import Counts

__all__ = ["RuntimeCollector", "StreamCollector", "router"]

router = APIRouter(tags=["operations"], route_class=StrictRoute)

_OUTCOMES = ("succeeded", "cancelled", "failed", "lost")  # all of them from the first scrape, as rates need


class RuntimeCollector(Collector):
    """Makes metrics of a runtime's counts; `prometheus_client.REGISTRY.register(RuntimeCollector(runtime))` does in process.

    Args:
        runtime: while it is open or closed; before, there is nothing to count.

    Raises:
        InvalidInput: `invalid_option`; it is none.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = check_is("runtime", runtime, Runtime, "the Runtime that is counted")

    def collect(self) -> Iterator[Metric]:
        """Count now; costs a look at every thread in use."""
        counts = self._runtime.counts()
        ready, _ = self._runtime.ready()
        yield _by("treadle_executions", "Executions that ended since the start", "outcome", _ended(counts))
        yield from _gauges(counts, ready=ready)
        workers = GaugeMetricFamily("treadle_workers", "Workers for plain functions", labels=["state"])
        for state in ("idle", "blocked", "abandoned"):
            workers.add_metric([state], counts.workers[state])
        workers.add_metric(["busy"], max(0, counts.workers["workers"] - counts.workers["idle"]))
        yield workers
        yield from _writes(counts)

    def describe(self) -> Iterable[Metric]:
        """Name nothing ahead: the runtime may not be open yet."""
        return ()


class StreamCollector(Collector):
    """Makes the metric of an app's own: the clients whose streams it holds open.

    Args:
        served: `app.state.treadle`.

    Raises:
        InvalidInput: `invalid_option`; it is not that.
    """

    def __init__(self, served: Hosted) -> None:
        self._served = check_is("served", served, Hosted, "app.state.treadle")

    def collect(self) -> Iterator[Metric]:
        """Count now."""
        text = "Streams that clients hold open, waits for executions included"
        yield GaugeMetricFamily("treadle_streams", text, value=self._served.streams.held)


def _ended(counts: Counts) -> dict[str, int]:
    return {outcome: counts.ended.get(outcome, 0) for outcome in _OUTCOMES}


def _by(name: str, text: str, label: str, values: dict[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=[label])
    for value, count in values.items():
        family.add_metric([value], count)
    return family


def _gauges(counts: Counts, *, ready: bool) -> Iterator[Metric]:
    for name, text, value in (
        ("ready", "Whether work can be taken and finished", int(ready)),
        ("executions_active", "Executions whose body is out", counts.active),
        ("threads_blocked", "Threads whose last commit the store refuses", counts.blocked),
        ("actors", "Threads with an actor", counts.actors),
        ("actors_idle", "Actors at rest", counts.idle),
        ("mail", "Mail that waits for its turn or for a commit", counts.mail),
        ("inputs_waiting", "Inputs of threads in use that have not joined history", counts.waiting),
        ("bodies_waiting", "Plain functions in line for a worker", counts.workers["waiting"]),
        ("commits_waiting", "Batches that the store has not answered", counts.store.waiting),
        ("threads_watched", "Threads that somebody watches", counts.watched),
        ("watchers", "Watchers of threads", counts.readers),
    ):
        yield GaugeMetricFamily(f"treadle_{name}", text, value=value)


def _writes(counts: Counts) -> Iterator[Metric]:
    store = counts.store
    yield CounterMetricFamily("treadle_commits", "Batches that the store has answered", value=store.batches)
    yield CounterMetricFamily("treadle_commit_seconds", "Seconds that writing took", value=store.seconds)
    # The sizes of groups come by powers of two; the largest is that of the limit, so `+Inf` adds none.
    reached = list(accumulate(store.sizes)) or [0]
    buckets = [(str(float(1 << power)), float(count)) for power, count in enumerate(reached)]
    sizes = HistogramMetricFamily("treadle_commit_group_size", "Batches that shared one sync")
    sizes.add_metric([], [*buckets, ("+Inf", float(reached[-1]))], float(store.batches))
    yield sizes


@router.get(
    "/metrics",
    response_class=Response,
    summary="Metrics for Prometheus",
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **problems(403)},
)
async def metrics(request: Request, who: Principal = Depends(principal)) -> Response:  # noqa: B008 - FastAPI's form
    """Show what the runtime counts, as Prometheus reads it; for an admin, since it tells of everybody's work."""
    if who.kind != "admin":
        raise Refused(403, "forbidden", "metrics tell of everybody's work, and are an admin's to read")
    served = hosted(request)
    registry = CollectorRegistry()
    registry.register(RuntimeCollector(served.runtime))
    registry.register(StreamCollector(served))
    text = await anyio.to_thread.run_sync(generate_latest, registry)
    return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)
