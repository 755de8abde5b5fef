"""Owns `make demo`: hosts threads in a child process, kills it halfway, starts another, and compares what they promised
with what the store holds. Exits 1 if anything differs.

python examples/demo/main.py                 200 threads, all dialogues
python examples/demo/main.py --seed 7        other scenes
python examples/demo/main.py --keep          leave the store behind
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))  # run as a script, this file's own folder is all that Python sees

try:
    from examples.demo.dialogues import Corpus, load
    from examples.demo.history import read_histories
    from examples.demo.notes import load_notes, save_notes
    from examples.demo.process import HostDied, HostProcess, Notebook, Opening
    from examples.demo.replay import host
    from examples.demo.scenes import Scene, make_plan
    from examples.demo.show import Life, Reporter
    from examples.demo.verdict import Verdict, judge
    from treadle.storage.check import check
except ModuleNotFoundError as missing:
    sys.exit(f"The demo needs {missing.name}: run `make demo`, or install treadle with its demo extra.")

if TYPE_CHECKING:
    from types import FrameType

    from examples.demo.history import History

NOTES = "notes.jsonl"
SYNCS = 20


def main() -> int:
    """Run the demo, or, as its child, host threads."""
    options = _options()
    corpus = load()
    plan = make_plan(corpus.dialogues[: options.dialogues], options.threads, options.seed)
    if options.host is not None:
        notes, played = load_notes(options.host / NOTES) if options.reopened else ([], {})
        asyncio.run(host(options.host / "store", corpus, plan, notes, played))
        return 0
    # SIGTERM ends like everything else, so that the child and the directory go too.
    signal.signal(signal.SIGTERM, _leave)
    directory = Path(tempfile.mkdtemp(prefix="treadle-demo-"))
    mismatches: list[str] = ["the demo did not come to its end"]
    try:
        mismatches = _demo(options, corpus, plan, directory)
    except HostDied as died:
        mismatches = [str(died)]
        print(f"MISMATCH {died}")
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        if options.keep:
            print(f"The store is in {directory / 'store'}.")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    return 1 if mismatches else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=200, help="how many threads to host (200)")
    parser.add_argument("--seed", type=int, default=1, help="of the plan: who says what, and how it comes in (1)")
    parser.add_argument("--dialogues", type=int, help="replay only the first so many")
    parser.add_argument("--keep", action="store_true", help="leave the store behind, and say where")
    # How the demo calls itself.
    parser.add_argument("--host", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--reopened", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.threads < 1:
        parser.error("--threads must be at least 1")
    return options


def _leave(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _demo(options: argparse.Namespace, corpus: Corpus, plan: dict[str, list[Scene]], directory: Path) -> list[str]:
    """Replay the plan in two lives of the hosting process, compare, print, and return the mismatches."""
    reporter = Reporter(sum(len(scene.lines) for scenes in plan.values() for scene in scenes))
    reporter.say(_about(options, corpus, reporter.total))
    notebook, complaints = Notebook(), []

    def progress() -> None:
        reporter.advance(len(notebook.said), len(notebook.notes))

    with reporter:
        with HostProcess(sys.argv[1:], directory, notebook) as first:
            first.follow(lambda: 2 * len(notebook.said) >= reporter.total, progress)
        complaints.append(first.complaints())
        if first.killed_at is None:
            raise HostDied("the hosting process came to the end of the plan before it could be killed")
        reporter.say(f"  SIGKILL to the hosting process, {len(notebook.notes):,} of its answers written down by then.")
        save_notes(directory / NOTES, notebook.notes, notebook.scenes)
        notebook.opening = None
        with HostProcess([*sys.argv[1:], "--reopened"], directory, notebook) as second:
            second.follow(lambda: False, progress)
        complaints.append(second.complaints())
    opening = notebook.opening
    if opening is None or not notebook.done:
        raise HostDied("the second hosting process ended before the plan did")
    histories, settled = read_histories(directory / "store", corpus, notebook.notes, plan)
    checked = check(directory / "store")
    verdict = judge(corpus, plan, notebook.notes, notebook.ends, histories, opening.settled)
    mismatches = verdict.mismatches + [f"the store's check: {broken}" for broken in checked.broken]
    mismatches += [f"{name} was left running by a process that ended in order" for name in settled]
    mismatches += [f"a hosting process complained{complaint}" for complaint in complaints if complaint]
    reporter.say(_reopening(opening, verdict))
    reporter.tables(verdict, opening.statuses, _lives(first, second, histories), _sync_ms(directory))
    reporter.say(f"Check of the store: {checked}.")
    reporter.conclude(mismatches)
    return mismatches


def _about(options: argparse.Namespace, corpus: Corpus, total: int) -> str:
    spoken = len(corpus.dialogues[: options.dialogues])
    return (
        f"[bold]Treadle demo[/], seed {options.seed}. {options.threads} threads on an embedded store replay {spoken:,} dialogues"
        f" in {corpus.languages} languages, from chatterbot-corpus {corpus.version}. {total:,} lines are submitted, steered into"
        " running executions, or queued; some executions are interrupted. Halfway the hosting process gets SIGKILL; another"
        " one opens the store and goes on.\n"
    )


def _reopening(opening: Opening, verdict: Verdict) -> str:
    return (
        f"\nReopened in {opening.seconds * 1000:.0f} ms. {_count(len(opening.settled), 'execution')} ran at the kill: settled as"
        " lost, and the clients said their lines again."
        f" {_count(opening.statuses.get('running', 0), 'thread')} had more inputs waiting, which started by themselves."
        f" {_count(verdict.repeated, 'call')} had been stored without an answer: repeated under the same id, each got its first"
        " receipt."
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _lives(first: HostProcess, second: HostProcess, histories: dict[str, History]) -> list[Life]:
    ends = [record.finished_at for history in histories.values() for record in history.executions if record.finished_at]
    before = sum(end <= (first.killed_at or 0) for end in ends)
    return [
        Life("before the kill", before, first.seconds),
        Life("after the reopening", len(ends) - before, second.seconds),
    ]


def _sync_ms(directory: Path) -> float:
    """Measure what a small write with its sync costs here: without it, nobody can judge the rate."""
    took = []
    with (directory / "sync").open("wb", buffering=0) as file:
        for _ in range(SYNCS):
            began = time.perf_counter()
            file.write(b"\0" * 4_096)
            os.fsync(file)
            took.append(time.perf_counter() - began)
    return statistics.median(took) * 1_000


if __name__ == "__main__":
    sys.exit(main())
