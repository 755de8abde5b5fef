"""Owns what is said of a thing that stands in a definition in the place of another. Makes nothing of it."""

from __future__ import annotations

from pydantic import BeforeValidator

from ..protocol.errors import shorten

__all__ = ["expected"]


def expected(said: str, *kinds: type) -> BeforeValidator:
    """Refuse what is of none of these kinds by one sentence, where pydantic would have one for each kind.

    Args:
        said: what is expected, and how it is made.
        kinds: what may stand there; pydantic goes on with it.
    """

    def check(value: object) -> object:
        if isinstance(value, kinds):
            return value
        raise ValueError(f"{said}, not {shorten(value)}")

    return BeforeValidator(check)
