"""Owns `Variable`, what a prompt or a tool says of an environment variable that it uses. Resolves none."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Variable"]


class Variable(BaseModel):
    """An environment variable that is used.

    Attributes:
        name: the variable.
        type: `secret` values are taken out of what leaves the process.
        required: whether it does not work without.
        description: for whoever fills it in.
        scoped: whether a thread's own value stays its own.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    type: Literal["text", "secret"] = "text"
    required: bool = False
    description: str = ""
    scoped: bool = False
