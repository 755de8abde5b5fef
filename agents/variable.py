"""Owns `Variable`, what a prompt or a tool says of an environment variable that it uses. Resolves none."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ..protocol.errors import InvalidInput
from .environment import check_variable

__all__ = ["Env", "Variable"]


def _check_env(given: dict[str, str]) -> dict[str, str]:
    for name, value in given.items():
        try:
            check_variable(name, value)
        except InvalidInput as error:
            raise ValueError(error.message) from None
    return given


Env: TypeAlias = Annotated[dict[str, str], AfterValidator(_check_env), Field(repr=False)]
"""Values of variables, which may be secret; such names and texts as a process may be given."""


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
