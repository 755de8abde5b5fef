"""Owns what the store holds in the end: every thread's messages, executions, status and receipts. Judges nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from examples.demo.talker import make_talker
from treadle.actors import Receipt, Runtime
from treadle.protocol.errors import TreadleError
from treadle.storage import LmdbStore

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from examples.demo.dialogues import Corpus
    from examples.demo.notes import Note
    from treadle.actors import ExecutionRecord, Message, Thread, ThreadStatus

__all__ = ["History", "read_histories"]

PAGE = 1_000


class History(NamedTuple):
    """One thread as the store has it.

    Attributes:
        messages: all of them, oldest first; those that still wait stand at the end.
        executions: all of them, oldest first.
        owners: for each acknowledged input, the execution that it came to, by id of the call.
        errors: what the store said instead of an answer.
    """

    thread: str
    messages: list[Message]
    executions: list[ExecutionRecord]
    owners: dict[str, str]
    status: ThreadStatus
    active: bool
    errors: list[str]


def read_histories(
    directory: Path, corpus: Corpus, notes: Iterable[Note], names: Iterable[str]
) -> tuple[dict[str, History], list[str]]:
    """Open the store a last time and read everything.

    Returns:
        The histories by thread, and the threads that this open had to settle: none, after a clean end.
    """
    taken: dict[str, list[str]] = {name: [] for name in names}
    for note in notes:
        if note.taken and note.verb != "interrupt":
            taken[note.thread].append(note.ask)
    with Runtime(LmdbStore(directory), agents=[make_talker(corpus)]) as runtime:
        assert runtime.opened is not None
        return {name: _read(runtime.thread(name), asks) for name, asks in taken.items()}, list(runtime.opened.settled)


def _read(thread: Thread, asks: list[str]) -> History:
    messages: list[Message] = []
    while len(page := thread.messages(limit=PAGE, offset=len(messages), order="asc").result().messages):
        messages += page
    executions: list[ExecutionRecord] = []
    while len(records := thread.executions(limit=PAGE, offset=len(executions), order="asc").result().executions):
        executions += records
    owners, errors = {}, []
    for ask in asks:
        try:
            owners[ask] = _owner(thread, ask)
        except TreadleError as error:
            errors.append(f"{ask}: {error.code}: {error}")
    state = thread.state().result()
    return History(thread.id, messages, executions, owners, state.status, state.active_execution is not None, errors)


def _owner(thread: Thread, ask: str) -> str:
    receipt = thread.receipt(ask).result()
    if receipt.execution_id is not None:
        return receipt.execution_id
    assert isinstance(receipt, Receipt)
    # It was queued; its wait follows it into the execution that took it, and ends at once, since that has ended.
    return thread.wait(receipt).result(timeout=10).execution_id
