"""Owns `Model`: which language model to ask, how often, and which ones instead. Asks none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator

from ..protocol.errors import shorten
from ..protocol.values import JsonObject
from .bounds import Attempts, Delay

if TYPE_CHECKING:
    from .models.seam import LanguageModel
else:
    LanguageModel = object  # a protocol is not checked by its class, but by what it has

__all__ = ["Model"]

_PROVIDER_ID: Final = re.compile(r"[\w.-]+:\S+\Z")


def _check_model(value: object) -> object:
    if isinstance(value, str):
        if not _PROVIDER_ID.match(value):
            raise ValueError(f"a model of a provider is named 'provider:model', not {shorten(value)}")
        return value
    if (
        isinstance(value, type)
        or not isinstance(getattr(value, "name", None), str)
        or not callable(getattr(value, "stream", None))
    ):
        raise ValueError(f"a language model has a name and a stream method; {shorten(value)} has not")  # noqa: TRY004 - pydantic collects ValueErrors
    return value


class Model(BaseModel):
    """A language model and what to do when it does not answer (contract E.5).

    Attributes:
        name: what prompts name it by.
        model: a `LanguageModel`, or `provider:model`, which the provider adapter answers for.
        fallbacks: asked in order when this one is given up; their own fallbacks are not.
        attempts: how often each model of the chain is asked.
        first_delay: seconds before the second attempt, doubled before each further one.
        settings: `temperature` and the like.
        vision: whether it takes pictures.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    name: str = ""
    model: Annotated[LanguageModel | str, PlainValidator(_check_model)]
    fallbacks: Annotated[Sequence[str | Model], AfterValidator(tuple)] = ()
    attempts: Attempts = 2
    first_delay: Delay = 1.0
    settings: JsonObject = Field(default_factory=dict)
    vision: bool = True
