"""Owns the mail of the runtime to a thread that decides nothing. Answers of the store come as the batch itself."""

from __future__ import annotations

__all__ = ["Nothing", "Reload", "Settled"]


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
