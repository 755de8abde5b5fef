"""Owns what goes to a store and what comes back: a batch of puts and deletes, and its answer. Never writes anything."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from .keys import numbered

if TYPE_CHECKING:
    from ..protocol.errors import TreadleError

__all__ = ["COMMITTED", "Answer", "Batch", "Confirm", "Op", "complain", "refused", "tell"]

_log = logging.getLogger("treadle.storage")

Op: TypeAlias = tuple[int, bytes, bytes | None]  # table, key, value; None deletes, and deleting an absent key is fine


class Answer(NamedTuple):
    """What became of one batch.

    `committed`: it is as durable as the store was asked to make it. `not_written`: nothing of it is stored, and
    `error` says why. `unknown`: the store could not tell; `error` says why, and the thread's head must be read anew.
    """

    kind: Literal["committed", "not_written", "unknown"]
    change: int = 0  # the number that the batch took in CHANGES, 0 if it took none
    error: TreadleError | None = None


COMMITTED = Answer("committed")

Confirm: TypeAlias = Callable[[Answer], None]


class Batch:
    """Everything that one commit of one thread changes, already encoded. Belongs to the store once handed over.

    Attributes:
        number: the thread's number.
        prefix: the same, 8 bytes big-endian: the key of its row in THREADS, and what its other keys begin with.
        generation, sequence: the head that the row must have now; (0, 0) when there must be no row.
        boot, life: the incarnation that writes; refused when lower than the stored one or than a barrier.
        head_generation, head_sequence: the head after this batch.
        record: the rest of the new thread row, opaque here.
        change: payload of the thread's new row in CHANGES, or None when this commit is not announced there. The
            writer takes the next number and drops the thread's previous row.
        absent: table and key that must not exist, or None.
        ops: puts and deletes, in order. None of them touches META, THREADS or CHANGES.
        size: bytes, as far as the limits of a group are concerned.
        confirm: called exactly once with the answer, on the writer worker, or on the worker that called `commit` or
            `close`. It must not block; if it raises, that is logged and goes no further.
    """

    confirm: Confirm

    def __init__(
        self,
        *,
        number: int,
        generation: int,
        sequence: int,
        boot: int,
        life: int,
        head_generation: int,
        head_sequence: int,
        record: bytes,
        ops: list[Op],
        size: int,
        confirm: Confirm,
        change: bytes | None = None,
        absent: tuple[int, bytes] | None = None,
    ) -> None:
        self.number = number
        self.prefix = numbered(number)
        self.generation = generation
        self.sequence = sequence
        self.boot = boot
        self.life = life
        self.head_generation = head_generation
        self.head_sequence = head_sequence
        self.record = record
        self.change = change
        self.absent = absent
        self.ops = ops
        self.size = size
        self.confirm = confirm


def tell(confirm: Confirm, answer: Answer) -> None:
    """Give the answer; a `confirm` that raises is logged and hurts nobody else."""
    try:
        confirm(answer)
    except BaseException:  # noqa: BLE001 - also SystemExit: the writer serves all threads and ends for none of them
        complain(answer)


def complain(answer: Answer) -> None:
    """Log that a `confirm` raises, inside the `except` that caught it."""
    _log.exception("a confirm raised; its batch was answered %s all the same", answer.kind)


def refused(error: TreadleError, kind: Literal["not_written", "unknown"] = "not_written") -> Answer:
    """Return the answer that carries a copy of `error`.

    A copy for each batch: callers raise what they get, and a shared exception would collect all their tracebacks.
    """
    return Answer(kind, 0, copy.copy(error))
