"""Owns the list of figures: what is compared with what, and the bound that each must keep. Runs nothing.

A comparison is a pair of commands; a figure is one number of both, and the bound of their ratio. `floor` bounds a ratio
from below (a rate), `limit` from above (a duration, a size); with neither the figure is printed only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.alternate import Command

STORES = "build/bench"  # below the checkout: a temporary directory may lie in memory, where a sync costs nothing


@dataclass(frozen=True, slots=True)
class Figure:
    """One number and its bound.

    Attributes:
        key: its name in the JSON of the product's side.
        of: its name on the baseline's side, where that differs.
        floor: the least that product / baseline may be.
        limit: the most that product / baseline may be.
        slack: by how much the product may lie above the baseline whatever the ratio, in the figure's own unit.
        most: the most that the product's number itself may be, in its own unit.
    """

    key: str
    of: str | None = None
    floor: float | None = None
    limit: float | None = None
    slack: float = 0.0
    most: float | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two commands that are measured in turn, and the figures taken from them.

    Attributes:
        name: what `--only` selects, as a prefix.
        product: the measured command; baseline: what it is compared with.
        prepare: run once before the first round, into the directory that replaces `{stores}` in any command.
    """

    name: str
    baseline: Command
    product: Command
    figures: tuple[Figure, ...]
    prepare: tuple[Command, ...] = ()


def _executions(commits: int, threads: int, floor: float) -> Comparison:
    shared = ("--threads", str(threads), "--commits", str(commits), "--dir", "{stores}")
    figures = [Figure("per_s", floor=floor)]
    if (commits, threads) == (3, 256):
        figures.append(Figure("bytes_per_execution", most=3 * 1024))
    return Comparison(
        f"executions_{commits}_threads_{threads}",
        ("baseline", "executions", *shared),
        ("workloads.executions", *shared),
        tuple(figures),
    )


def _steps(threads: int) -> Comparison:
    """What a model step costs: a declared agent that answers once, against a callable that says the same."""
    shared = ("--threads", str(threads), "--executions", "10000", "--dir", "{stores}")
    return Comparison(
        f"step_threads_{threads}",
        ("workloads.executions", *shared, "--commits", "3"),
        ("workloads.steps", *shared),
        (Figure("per_s"),),
    )


COMPARISONS = (
    *(_executions(3, threads, 0.55) for threads in (1, 16, 256, 1_000)),
    *(_executions(2, threads, 0.6) for threads in (1, 16, 256, 1_000)),
    Comparison(
        "deep_store",
        ("baseline", "executions", "--threads", "1000", "--commits", "3", "--dir", "{stores}"),
        ("workloads.executions", "--threads", "1000", "--commits", "3", "--store", "{stores}/deep"),
        (Figure("per_s"),),
        prepare=(("workloads.executions", "--threads", "1000", "--executions", "100000", "--store", "{stores}/deep"),),
    ),
    Comparison(
        "steer",
        ("baseline", "commit", "--dir", "{stores}"),
        ("workloads.steer", "--dir", "{stores}"),
        (Figure("p50_ms", limit=2.5), Figure("p99_ms", limit=4.0)),
    ),
    Comparison(
        "steer_beside_a_computing_agent",
        ("baseline", "commit", "--dir", "{stores}"),
        ("workloads.steer", "--computing", "1", "--dir", "{stores}"),
        (Figure("p50_ms"), Figure("p99_ms")),
    ),
    Comparison(
        "memory",
        ("workloads.memory", "--threads", "1000", "--dir", "{stores}"),
        ("workloads.memory", "--threads", "20000", "--dir", "{stores}"),
        (Figure("bytes_per_thread", most=4 * 1024), Figure("workers", limit=1.0, slack=4.0)),
    ),
    Comparison(
        "open",
        ("workloads.open", "--store", "{stores}/few"),
        ("workloads.open", "--store", "{stores}/many"),
        (Figure("open_ms", limit=2.5, slack=20.0), Figure("reads", limit=1.0)),
        prepare=(
            ("workloads.open", "--store", "{stores}/few", "--prepare", "1000"),
            ("workloads.open", "--store", "{stores}/many", "--prepare", "100000"),
        ),
    ),
    Comparison(
        "history",
        ("workloads.history", "--messages", "100", "--dir", "{stores}"),
        ("workloads.history", "--messages", "20000", "--dir", "{stores}"),
        (Figure("append_cpu_us", limit=1.2), Figure("newest_page_us", limit=1.5)),
    ),
    # A thousand watchers on two hundred threads: on one loop of the process, and over loopback.
    Comparison(
        "watchers",
        ("workloads.watchers", "--in-process", "--dir", "{stores}"),
        ("workloads.watchers", "--dir", "{stores}"),
        (
            Figure("complete", floor=1.0),
            Figure("p50_ms"),
            Figure("p99_ms"),
            Figure("kib_per_watcher"),
            Figure("kib_per_watcher_after", most=128.0),
        ),
    ),
    *(_steps(threads) for threads in (1, 256)),
    # Scenario 35: in milliseconds, beside the same without anybody that blocks.
    Comparison(
        "beside_a_blocking_tool",
        ("workloads.blocked", "--blocking", "0", "--dir", "{stores}"),
        ("workloads.blocked", "--blocking", "1", "--dir", "{stores}"),
        (Figure("execution_p99_ms", most=50.0), Figure("health_p99_ms", most=50.0)),
    ),
    # The same for each message that is sent, whether ten times as many are sent or ten times as many are stored.
    Comparison(
        "context_sent",
        ("workloads.steps", "--messages", "500", "--dir", "{stores}"),
        ("workloads.steps", "--messages", "5000", "--dir", "{stores}"),
        (Figure("us_per_message", limit=1.3),),
    ),
    Comparison(
        "context_stored",
        ("workloads.steps", "--messages", "500", "--history-limit", "100", "--dir", "{stores}"),
        ("workloads.steps", "--messages", "5000", "--history-limit", "100", "--dir", "{stores}"),
        (Figure("us_per_message", limit=1.3),),
    ),
)
