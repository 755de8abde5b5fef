"""Owns what a prompt requires of the call that runs it: a pydantic model or a JSON schema, shown and held. Calls nothing."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import cast

from pydantic import BaseModel, TypeAdapter, ValidationError

from ..protocol.errors import TreadleError
from ..protocol.values import JsonObject, check_value
from .branching import TOO_DEEP, Branching, branching_of
from .json_schema import breaches, follow
from .tool_arguments import (
    NO_OBJECT,
    PROBLEMS_MAX,
    ShownSchema,
    ToolArgumentsInvalid,
    arguments_text,
    check_finite,
    refused_by,
)

__all__ = ["check_against", "schema_of"]

_ANYTHING: JsonObject = {"type": "object", "properties": {}}


def schema_of(required: type[BaseModel] | JsonObject | None) -> JsonObject:
    """Return the JSON schema of an object."""
    if required is None:
        return _ANYTHING
    if isinstance(required, dict):
        return required
    schema = required.model_json_schema(schema_generator=ShownSchema)
    reference = schema.pop("$ref", None)
    # A model that holds itself is only referred to at the top, where providers want to see an object.
    return schema if reference is None else {**cast("JsonObject", follow(reference, schema)), **schema}


def check_against(required: type[BaseModel] | JsonObject | None, arguments: object) -> JsonObject:
    """Return arguments as JSON data, those of a pydantic model with its defaults.

    Raises:
        ToolArgumentsInvalid: no JSON object, or none that fits.
    """
    text = arguments_text(arguments)
    if required is not None and not isinstance(required, dict):
        try:
            check_finite(text)
            if _branching(required).is_too_deep(text):
                raise ToolArgumentsInvalid([("$", TOO_DEEP)])
            dumped = required.model_validate_json(text).model_dump(mode="json", by_alias=True)
            return cast("JsonObject", check_value(dumped))
        except ValidationError as error:
            raise refused_by(error) from None
        except UnicodeEncodeError:
            raise ToolArgumentsInvalid([("$", "The arguments must be valid Unicode")]) from None
        except ToolArgumentsInvalid:
            raise
        except TreadleError as error:
            raise _no_json(error) from None
    try:
        parsed: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ToolArgumentsInvalid([("$", f"Invalid JSON: {error}")]) from None
    if not isinstance(parsed, dict):
        raise ToolArgumentsInvalid([("$", NO_OBJECT)])
    try:
        check_value(parsed)
    except TreadleError as error:
        raise _no_json(error) from None
    found = [] if required is None else breaches(parsed, required, PROBLEMS_MAX)
    if found:
        raise ToolArgumentsInvalid(found)
    return cast("JsonObject", parsed)


@lru_cache(maxsize=64)
def _branching(required: type[BaseModel]) -> Branching:
    return branching_of(TypeAdapter(required).core_schema)


def _no_json(error: TreadleError) -> ToolArgumentsInvalid:
    return ToolArgumentsInvalid([(str(error.details.get("path", "$")), error.message)])
