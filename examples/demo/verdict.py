"""Owns the comparison of what was acknowledged with what the store holds. Reads no store and prints nothing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from examples.demo.dialogues import answer

if TYPE_CHECKING:
    from examples.demo.dialogues import Corpus
    from examples.demo.history import History
    from examples.demo.notes import Note
    from examples.demo.scenes import Scene
    from treadle.actors import Message

__all__ = ["KINDS", "Verdict", "judge"]

KINDS = ("submit", "steer", "queue")


class Verdict:
    """What was counted, and every mismatch that was met, named.

    Attributes:
        acknowledged: inputs promised, by kind: how each came into history, not which call brought it.
        found: of these, once in history, with the right text.
        fates: (kind, fate): `answered`, `cut short` by an interruption, `lost` with the process, or `unread`.
        dispositions: (verb, disposition).
        projections: executions by projection.
        statuses: threads by run status.
        repeated: calls that the dead process had stored and not answered.
    """

    def __init__(self) -> None:
        self.acknowledged: Counter[str] = Counter()
        self.found: Counter[str] = Counter()
        self.fates: Counter[tuple[str, str]] = Counter()
        self.dispositions: Counter[tuple[str, str]] = Counter()
        self.projections: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.repeated = 0
        self.mismatches: list[str] = []


def kind_of(note: Note) -> str:
    """Return how an input came into history."""
    return "steer" if note.steered else note.verb


def judge(
    corpus: Corpus, plan: dict[str, list[Scene]], notes: list[Note], ends: list[tuple[str, str, str, str]],
    histories: dict[str, History], lost: list[str],
) -> Verdict:  # fmt: skip
    """Compare the notebook with the store.

    Args:
        corpus: what the agent knew.
        plan: what was to be said.
        notes: every answered call, in the order of their answers.
        ends: (thread, line, execution, projection) that clients saw.
        histories: what the store holds, by thread.
        lost: the threads whose execution was lost with the process.
    """
    verdict = Verdict()
    verdict.repeated = sum(note.repeated for note in notes)
    verdict.dispositions.update((note.verb, note.disposition) for note in notes)
    by_thread: dict[str, list[Note]] = {name: [] for name in plan}
    for note in notes:
        by_thread[note.thread].append(note)
    for name, scenes in plan.items():
        texts = {line.id: line.text for scene in scenes for line in scene.lines}
        thread = _Thread(corpus, texts, by_thread[name], histories[name], verdict)
        thread.check_inputs()
        thread.check_answers()
        thread.check_executions(lost=name in lost)
    _check_ends(ends, histories, verdict.mismatches)
    return verdict


def _check_ends(ends: list[tuple[str, str, str, str]], histories: dict[str, History], mismatches: list[str]) -> None:
    stored = {
        name: {record.execution_id: record.status for record in found.executions} for name, found in histories.items()
    }
    for thread, line, execution, seen in ends:
        held = stored[thread].get(execution)
        if held != seen:
            mismatches.append(f"{thread}: the client of {line} saw execution {execution} {seen}, the store says {held}")


class _Thread:
    """The checks of one thread."""

    def __init__(
        self, corpus: Corpus, texts: dict[str, str], notes: list[Note], history: History, verdict: Verdict
    ) -> None:
        self.corpus = corpus
        self.texts = texts
        self.notes = notes
        self.history = history
        self.verdict = verdict
        self.inputs = [note for note in notes if note.taken and note.verb != "interrupt"]
        self.places: dict[str, list[int]] = {}
        for place, message in enumerate(history.messages):
            if message.role == "user":
                self.places.setdefault(_ask(message), []).append(place)
        for error in history.errors:
            self.wrong(error)

    def wrong(self, what: str) -> None:
        """Name a mismatch."""
        self.verdict.mismatches.append(f"{self.history.thread}: {what}")

    def check_inputs(self) -> None:
        """Check that each acknowledged input is in history once, in order within its kind, and nothing else is."""
        promised = {note.ask for note in self.inputs}
        for ask in self.places.keys() - promised:
            self.wrong(f"{ask or 'a message without an id'} is in history, and nobody was told so")
        said = {note.line for note in self.inputs}
        for line in self.texts.keys() - said:
            self.wrong(f"line {line} was never taken")
        last = dict.fromkeys(KINDS, -1)
        for note in self.inputs:
            kind = kind_of(note)
            self.verdict.acknowledged[kind] += 1
            places = self.places.get(note.ask, [])
            if len(places) != 1:
                self.wrong(f"{kind} {note.ask} was acknowledged, and is in history {len(places)} times")
                continue
            message = self.history.messages[places[0]]
            if message.content != self.texts[note.line] or message.status == "pending":
                self.wrong(f"{kind} {note.ask} reads {message.content!r} and is {message.status}")
                continue
            if places[0] < last[kind]:
                self.wrong(f"{kind} {note.ask} stands before a {kind} that was acknowledged earlier")
            last[kind] = places[0]
            self.verdict.found[kind] += 1

    def check_answers(self) -> None:
        """Check that each input was answered rightly at most once, and exactly once if its execution succeeded."""
        by_id = {message.id: message for message in self.history.messages if message.role == "user"}
        answers: Counter[str] = Counter()
        latest = -1
        place = {message.id: rank for rank, message in enumerate(self.history.messages)}
        for message in self.history.messages:
            if message.role == "user":
                continue
            about = (message.metadata or {}).get("answers")
            asked = by_id.get(str(about))
            if asked is None or place[asked.id] > place[message.id]:
                self.wrong(f"message {message.id} ({message.role}) answers nothing that was asked before it")
                continue
            answers[asked.id] += 1
            if message.content != answer(self.corpus, self.history.thread, asked.content or ""):
                self.wrong(f"{_ask(asked)} got the wrong answer {message.content!r}")
            if (message.metadata or {}).get("execution") != self.history.owners.get(_ask(asked)):
                self.wrong(f"{_ask(asked)} was answered by another execution than the one that it came to")
            if place[asked.id] < latest:
                self.wrong(f"{_ask(asked)} was answered out of order")
            latest = place[asked.id]
        statuses = {record.execution_id: record.status for record in self.history.executions}
        for note in self.inputs:
            for rank in self.places.get(note.ask, [])[:1]:
                message = self.history.messages[rank]
                self._fate(note, message, answers[message.id], statuses.get(self.history.owners.get(note.ask, "")))

    def _fate(self, note: Note, message: Message, answered: int, status: str | None) -> None:
        unread = (message.metadata or {}).get("consumed") is False
        if answered > 1 or (unread and answered) or (status == "succeeded" and answered != 1):
            self.wrong(f"{note.ask} was answered {answered} times{' though unread' * unread}; its execution: {status}")
        if unread and status == "succeeded":
            self.wrong(f"{note.ask} was acknowledged as a steer, and its execution succeeded without reading it")
        if status not in ("succeeded", "cancelled", "interrupted"):
            self.wrong(f"{note.ask} came to an execution that is {status}")
        fate = "answered" if answered else "unread" if unread else "lost" if status == "interrupted" else "cut short"
        self.verdict.fates[kind_of(note), fate] += 1

    def check_executions(self, *, lost: bool) -> None:
        """Check the projections: none active, interrupted exactly where lost, never succeeded after an interruption."""
        history = self.history
        stopped = {note.target for note in self.notes if note.verb == "interrupt" and note.taken}
        stopped |= {note.interrupted for note in self.notes if note.interrupted}
        gone = 0
        for record in history.executions:
            self.verdict.projections[record.status] += 1
            if record.status == "interrupted":
                gone += 1
                if record.evidence is None:
                    self.wrong(f"execution {record.execution_id} is interrupted, and nothing says why")
            elif (record.status == "cancelled") != (record.execution_id in stopped) or record.abandoned:
                why = "was interrupted" if record.execution_id in stopped else "was not interrupted"
                self.wrong(f"execution {record.execution_id} {why} and is {record.status}: {record.error}")
        if gone != lost:
            self.wrong(f"{gone} executions are interrupted, {int(lost)} was lost with the process")
        state, _, reason = history.status
        self.verdict.statuses[f"{state} ({reason})" if reason else state] += 1
        if state == "running" or history.active:
            self.wrong(f"the thread was left {state}, with an execution in its slot: {history.active}")


def _ask(message: Message) -> str:
    return str((message.metadata or {}).get("ask", ""))
