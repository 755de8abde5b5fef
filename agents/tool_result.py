"""Owns `ToolResult`, what a tool came to, and how anything that a tool returns becomes one. Runs no tool, stores nothing."""

from __future__ import annotations

import inspect
import json
import traceback
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from ..protocol.errors import InvalidInput, TreadleError, kind_of, shorten, text_of
from ..protocol.limits import MESSAGE_BYTES_MAX
from ..protocol.messages import check_attachments
from ..protocol.values import JsonObject, check_value
from .models.halves import clean

__all__ = ["ToolResult", "failed_result", "is_storable", "tool_result"]

STACK_CHARACTERS_MAX: Final = 8_192
ERROR_CHARACTERS_MAX: Final = 8_192
_MCP_KEYS: Final = frozenset(
    {"content", "isError", "is_error", "structuredContent", "structured_content", "_meta", "meta"}
)
_MCP_TYPES: Final = frozenset({"text", "image", "audio", "resource", "resource_link"})


def _checked(value: object) -> object:
    return check_value(value)


class ToolResult(BaseModel):
    """What a tool came to (contract E.4).

    Attributes:
        result: the text that the model reads; without one a success is told in the runtime's words.
        error: what went wrong, for the model to read.
        stack: the traceback, for logs.
        error_code: stable, for programs; `error_data` is JSON data beside it.
        attachments: new files (`name`, `mimeType`, `data` in base64) or references to files of the thread.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: Literal["success", "error"]
    result: str | None = None
    error: str | None = None
    stack: str | None = None
    error_code: str | None = None
    error_data: Annotated[object, AfterValidator(_checked)] = None
    attachments: tuple[JsonObject, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether it is an error."""
        return self.status == "error"


def tool_result(value: object) -> ToolResult:
    """Make a result of whatever a tool returned; never raises.

    Text is the result; None is a success without one; a dict with the fields of a `ToolResult` is one; of MCP-style
    content the text parts are joined by newlines, files become attachments; other JSON data becomes its JSON text, and
    so does a pydantic model. What cannot be stored is an error result, `invalid_result`.
    """
    try:
        if inspect.iscoroutine(value):
            value.close()  # else Python warns, far from here, that it was never awaited
            raise TypeError("a coroutine, which nothing awaits: make the tool an async function")
        return _storable(_read(value))
    except (TreadleError, ValidationError) as error:
        return _refused(value, error)
    except BaseException as error:  # noqa: BLE001 - a broken object of the tool's must not end the loop
        return _refused(value, error)


def failed_result(error: BaseException, *, code: str | None = None) -> ToolResult:
    """Make the result of a tool that raised: type and message, its traceback for logs; never raises.

    Args:
        error: what escaped.
        code: the `error_code`; by default that of a `TreadleError`, else `tool_error`.
    """
    # By `type`: `isinstance` asks the error itself, which may be as hostile as its tool.
    known = cast("TreadleError", error) if issubclass(type(error), TreadleError) else None
    message = text_of(error)
    said = message if known is not None and message else f"{kind_of(error)}: {message}" if message else kind_of(error)
    return ToolResult(
        status="error",
        error=clean(_at_most(said)),
        stack=_stack(error),
        error_code=code or (known.code if known is not None else "tool_error"),
    )


def _stack(error: BaseException) -> str:
    try:
        # Its end says most: where it was raised.
        stack = clean("".join(traceback.format_exception(error)))
        return stack if len(stack) <= STACK_CHARACTERS_MAX else "…" + stack[1 - STACK_CHARACTERS_MAX :]
    except BaseException as broken:  # noqa: BLE001 - as above
        return f"(the traceback could not be had: {kind_of(broken)})"


def _read(value: object) -> ToolResult:
    if isinstance(value, ToolResult):
        return value
    if value is None:
        return ToolResult(status="success")
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", by_alias=True, exclude_none=_is_content(value.__dict__))
    if isinstance(value, str):
        return ToolResult(status="success", result=str.__str__(value))  # of a text enum the text, not its name
    if isinstance(value, dict):
        if value.get("status") in ("success", "error") and value.keys() <= ToolResult.model_fields.keys():
            return ToolResult.model_validate(value)
        if _is_content(value):
            return _of_content(cast("Mapping[str, object]", value))
    checked = check_value(value, bytes_max=MESSAGE_BYTES_MAX)
    return ToolResult(status="success", result=json.dumps(checked, ensure_ascii=False))


def _is_content(value: Mapping[str, object]) -> bool:
    """Say whether it is what an MCP tool returns, rather than a dict that happens to have `content`."""
    parts = value.get("content")
    return value.keys() <= _MCP_KEYS and isinstance(parts, list) and all(_type_of(part) in _MCP_TYPES for part in parts)


def _type_of(part: object) -> object:
    kind = part.get("type") if isinstance(part, dict) else getattr(part, "type", None)
    return kind if isinstance(kind, str) else None


def _of_content(value: Mapping[str, object]) -> ToolResult:
    texts: list[str] = []
    files: list[JsonObject] = []
    for part in cast("Sequence[Mapping[str, object]]", value["content"]):
        _take_part(part, texts, files)
    structured = value.get("structuredContent", value.get("structured_content"))
    if not texts and structured is not None:
        texts.append(json.dumps(check_value(structured), ensure_ascii=False))
    said = "\n".join(texts)
    if value.get("isError", value.get("is_error")):
        return ToolResult(status="error", error=said or "the tool failed and said nothing", attachments=tuple(files))
    return ToolResult(status="success", result=said, attachments=tuple(files))


def _take_part(part: Mapping[str, object], texts: list[str], files: list[JsonObject]) -> None:
    held = part.get("resource") if part["type"] == "resource" else part
    if not isinstance(held, dict):
        raise TypeError(f"a resource without its contents: {shorten(part)}")
    if isinstance(held.get("text"), str):
        texts.append(held["text"])
        return
    data = held.get("data", held.get("blob"))
    if isinstance(data, str):
        mime_type = held.get("mimeType") or held.get("mime_type") or "application/octet-stream"
        name = held.get("name") or held.get("uri") or f"{part['type']}-{len(files) + 1}"
        files.append({"name": str(name), "mimeType": str(mime_type), "data": data})
    elif held.get("uri") is not None:
        texts.append(str(held["uri"]))
    else:
        raise ValueError(f"a part of type {part['type']} without text, data or uri: {shorten(part)}")


def is_storable(result: ToolResult) -> bool:
    """Say whether it is a result also in what it holds: `model_copy` and `model_construct` check nothing."""
    try:
        _storable(result)
    except (TreadleError, ValidationError):
        return False
    return True


def _storable(result: ToolResult) -> ToolResult:
    fields: dict[str, object] = {
        "result": result.result,
        "error": result.error,
        "stack": result.stack,
        "error_code": result.error_code,
    }
    for field, value in fields.items():
        if not isinstance(value, str | None):  # pydantic would decode bytes
            raise InvalidInput(f"{field} must be text, not {shorten(value)}", code="invalid_value", path=f"$.{field}")
        check_value(value, path=f"$.{field}", bytes_max=MESSAGE_BYTES_MAX)
    # What was made by `model_copy` or `model_construct` was checked by nobody.
    checked = ToolResult.model_validate(dict(result.__dict__))
    check_attachments(checked.attachments)
    return checked


def _refused(value: object, error: BaseException) -> ToolResult:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False)[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    else:
        why = failed_result(error).error or ""
    said = clean(f"the tool returned what cannot be stored ({kind_of(value)}): {why}")
    return ToolResult(status="error", error=_at_most(said), error_code="invalid_result")


def _at_most(error: str) -> str:
    # The mark is what the half of a secret before it is found by.
    return error if len(error) <= ERROR_CHARACTERS_MAX else error[: ERROR_CHARACTERS_MAX - 1] + "…"
