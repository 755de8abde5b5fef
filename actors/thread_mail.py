"""Owns the mail that only the runtime sends to a thread: answers of the store, and mail that decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..storage.batch import Answer
    from .building import Building

__all__ = ["Answered", "Nothing", "Reload", "Settled"]


class Answered:
    """The store's answer to the batch in flight, on its way to the actor."""

    __slots__ = ("answer", "building")

    def __init__(self, building: Building, answer: Answer) -> None:
        self.building = building
        self.answer = answer


class Settled:
    """Mail that is answered once its actor has tried to settle what the last life left: with whether it could."""

    __slots__ = ("execution_id",)

    def __init__(self, execution_id: str | None) -> None:
        self.execution_id = execution_id  # the lost one


class Nothing:
    """Mail whose only use is that it brings an actor up."""

    __slots__ = ()


class Reload(Exception):
    """What the store did cannot be told here; the next incarnation reads it."""
