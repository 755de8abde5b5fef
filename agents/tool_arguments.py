"""Owns the arguments of a tool: their JSON schema from a function's type hints, and the check of a call. Runs no tool."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Final, NoReturn, cast, get_origin, get_type_hints

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, SchemaError

from ..protocol.errors import CallerError, InvalidInput, TreadleError, shorten
from ..protocol.limits import MESSAGE_BYTES_MAX
from ..protocol.values import JsonObject, check_value
from .branching import TOO_DEEP, branching_of
from .json_schema import no_json, shown_path
from .patterns import python_pattern_problem, python_patterns, schema_problem

__all__ = ["Arguments", "ShownSchema", "ToolArgumentsInvalid", "arguments_text", "check_finite", "refused_by"]

_PERHAPS_ENDLESS: Final = re.compile(r"NaN|Infinity|[eE]\+?[0-9]{2}|[0-9]{309}")  # may also stand in a text
PROBLEMS_MAX: Final = 20  # a model mends a few at a time; ten thousand lines would only cost
_DATA: Final = (str, int, float, bool, list, dict)
NO_OBJECT: Final = "The arguments must be a JSON object"
# Pydantic speaks of Python calls there; a model wrote a JSON object.
_IN_OUR_WORDS: Final = {
    "missing_keyword_only_argument": "Field required",
    "unexpected_keyword_argument": "Unexpected argument",
    "arguments_type": NO_OBJECT,
}


class ToolArgumentsInvalid(CallerError):
    """The arguments of a call do not fit the tool; its text is `[<path>] <msg>`, one for each problem.

    Attributes:
        path: of the first problem: `customer.email`, or `$` for the arguments as a whole.
        msg: what is wrong there.
        problems: all of them, path and message.
    """

    code = "tool_arguments_invalid"

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self.path, self.msg = problems[0]
        self.problems = problems
        super().__init__("; ".join(f"[{path}] {msg}" for path, msg in problems), path=self.path, msg=self.msg)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.problems,)


def refused_by(error: ValidationError) -> ToolArgumentsInvalid:
    """Put what pydantic found into our words: places joined by dots, no values, since these may be secrets."""
    problems: list[tuple[str, str]] = []
    for found in error.errors(include_url=False, include_context=False, include_input=False)[:PROBLEMS_MAX]:
        msg = _IN_OUR_WORDS.get(found["type"])
        path = shown_path(".".join(map(str, found["loc"])) or "$")
        problem = (path, found["msg"] if msg is None else msg)
        if problem not in problems:
            problems.append(problem)
    return ToolArgumentsInvalid(problems)


def arguments_text(arguments: object) -> str:
    """Return the JSON text of a call's arguments: the text itself, of a dict its encoding, `{}` for nothing.

    Raises:
        ToolArgumentsInvalid: neither text nor a dict of JSON data.
    """
    if arguments is None:
        return "{}"
    if isinstance(arguments, str):
        given = arguments.lstrip()
        if given.startswith("["):  # pydantic would take a list for positional arguments
            raise ToolArgumentsInvalid([("$", NO_OBJECT)])
        # Many models write nothing at all for a tool without arguments.
        return given or "{}"
    if not isinstance(arguments, Mapping):
        raise ToolArgumentsInvalid([("$", NO_OBJECT)])
    try:
        return json.dumps(check_value(dict(arguments), bytes_max=MESSAGE_BYTES_MAX), ensure_ascii=False)
    except TreadleError as error:
        raise ToolArgumentsInvalid([(str(error.details.get("path", "$")), error.message)]) from None


def check_finite(text: str) -> None:
    """Look for numbers that JSON has not: one that is compared with anything is neither above nor below it.

    Raises:
        ToolArgumentsInvalid: `NaN`, `Infinity`, or a number too large for one; what is no JSON at all passes.
    """
    if _PERHAPS_ENDLESS.search(text) is None:
        return
    try:
        json.loads(text, parse_constant=_refuse_number, parse_float=_finite)
    except ToolArgumentsInvalid:
        raise
    except (ValueError, RecursionError):
        return  # whoever reads it says so better


def _finite(number: str) -> float:
    value = float(number)
    return value if math.isfinite(value) else _refuse_number(number)


def _refuse_number(number: str) -> NoReturn:
    raise ToolArgumentsInvalid([("$", f"Numbers should be finite, which {shorten(number, 40)} is not")])


class Arguments:
    """What a function takes after its first parameter, as a model has to give it.

    Args:
        function: the tool's; its hints are resolved where it was defined, or in `local`.
        name: of the tool, for errors.
        local: names that the hints may use beside the function's globals.

    Raises:
        InvalidInput: `invalid_tool`: there is no first parameter for the state, one cannot be given by name, or pydantic
            knows no JSON for a type.
    """

    __slots__ = ("_adapter", "_branching", "schema")

    def __init__(self, function: Callable[..., object], name: str, local: Mapping[str, object]) -> None:
        taken = _taken(function, name)
        hints = _hints(function, name, taken, local)

        def collect(**arguments: object) -> dict[str, object]:
            return arguments

        collect.__annotations__ = hints
        collect.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [_by_name(one, hints[one.name]) for one in taken]
        )
        try:
            self._adapter: TypeAdapter[dict[str, object]] = TypeAdapter(
                cast("type[dict[str, object]]", collect),
                config=ConfigDict(allow_inf_nan=False),  # pydantic would read the text "nan" as a number, too
            )
            self.schema: JsonObject = self._adapter.json_schema(schema_generator=_Schema)
        except PydanticUserError as error:
            raise _refuse(name, f"has a type that no JSON can fill: {error.message.splitlines()[0]}") from error
        except SchemaError as error:
            raise _refuse(name, f"has a type that cannot be checked: {schema_problem(error)}") from error
        self._branching = branching_of(self._adapter.core_schema)
        problem = no_json(self.schema)
        if problem is not None:
            raise _refuse(name, f"has a type whose schema {problem}")
        for pattern in python_patterns(self._adapter.core_schema):
            raise _refuse(name, f"has a type that cannot be checked: {python_pattern_problem(pattern)}")

    def check(self, arguments: object) -> dict[str, object]:
        """Return the keyword arguments for the function, defaults filled in.

        Args:
            arguments: a dict, or the JSON text that a model wrote.

        Raises:
            ToolArgumentsInvalid: they do not fit.
        """
        text = arguments_text(arguments)
        check_finite(text)
        if self._branching.is_too_deep(text):
            raise ToolArgumentsInvalid([("$", TOO_DEEP)])
        try:
            return self._adapter.validate_json(text)
        except ValidationError as error:
            raise refused_by(error) from None
        except UnicodeEncodeError:
            raise ToolArgumentsInvalid([("$", "The arguments must be valid Unicode")]) from None


class ShownSchema(GenerateJsonSchema):
    """Makes the schemas that models are shown, which are JSON data."""

    # A default that JSON cannot show is still the function's own.
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

    def encode_default(self, dft: object) -> object:
        """Return a default as JSON data; pydantic leaves out what raises here."""
        encoded: object = super().encode_default(dft)
        problem = no_json(encoded)
        if problem is not None:
            raise PydanticSerializationError(problem)
        return encoded


class _Schema(ShownSchema):
    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002
        return False  # titles made of names tell a model nothing and cost tokens


def _refuse(name: str, why: str) -> InvalidInput:
    return InvalidInput(f"tool {name!r} {why}", code="invalid_tool", tool=name)


def _taken(function: Callable[..., object], name: str) -> list[inspect.Parameter]:
    """Return the parameters that a model fills: all but the first, the `ThreadState`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        raise _refuse(name, "is a callable whose signature Python does not know") from None
    if parameters and parameters[0].name in {"self", "cls"}:
        raise _refuse(
            name, "is a method of a class, which needs its object first: make tools of bound ones, tool(obj.name)"
        )
    if not parameters or parameters[0].kind not in {
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    }:
        raise _refuse(name, "must take the ThreadState as its first parameter")
    if _asks_for_data(parameters[0].annotation):
        first = parameters[0].name
        raise _refuse(
            name, f"must take the ThreadState as its first parameter, and {first!r} asks for data: (state, {first})"
        )
    for parameter in parameters[1:]:
        if parameter.kind in {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL}:
            raise _refuse(name, f"has the parameter {parameter.name!r}, which cannot be given by name")
    return parameters[1:]


def _asks_for_data(annotation: object) -> bool:
    # A state that was forgotten; not resolved, since the hint of a state may name what only type checkers import.
    if isinstance(annotation, str):
        return annotation.split("[", 1)[0] in {kind.__name__ for kind in _DATA}
    return annotation in _DATA or get_origin(annotation) in _DATA


def _by_name(parameter: inspect.Parameter, hint: object) -> inspect.Parameter:
    kind = parameter.kind
    if kind is not inspect.Parameter.VAR_KEYWORD:
        kind = inspect.Parameter.KEYWORD_ONLY
    return parameter.replace(kind=kind, annotation=hint)


def _hints(
    function: Callable[..., object], name: str, taken: list[inspect.Parameter], local: Mapping[str, object]
) -> dict[str, object]:
    # Not those of the state and of the result: they may name what is imported for type checkers only.
    given = {one.name: object if one.annotation is one.empty else one.annotation for one in taken}
    inner = inspect.unwrap(getattr(function, "func", function))
    inner = inner if hasattr(inner, "__globals__") else getattr(inner, "__func__", type(inner).__call__)
    try:
        hints = get_type_hints(
            SimpleNamespace(__annotations__=given), getattr(inner, "__globals__", {}), dict(local), include_extras=True
        )
    except Exception as error:  # an annotation is code, and may raise anything
        raise _refuse(
            name, f"has a type hint that cannot be read: {type(error).__name__}: {shorten(str(error))}"
        ) from error
    return hints
