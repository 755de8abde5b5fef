"""Owns how log records are written for a service: lines of text or of JSON, with the fields that one searches by.

Every record has `thread`, `execution` and `code` where they are known: from the record itself, from the error that it tells
of, or from the body that logs it. So the logs of a user's own code say which execution they belong to, without its help.
"""

from __future__ import annotations

import json
import logging
import sys
import unicodedata
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from ..actors.execution import current_execution
from ..protocol.errors import TreadleError, shorten
from .given import wrong

if TYPE_CHECKING:
    from typing import TextIO

__all__ = ["JsonLines", "TextLines", "configure_logging", "fields_of"]

# `thread` is what `logging` calls an OS thread, so ours come under the names that errors and reports use.
_FIELDS = {"thread": "thread_id", "execution": "execution_id", "code": "code"}


def fields_of(record: logging.LogRecord) -> dict[str, str]:
    """Return `thread`, `execution` and `code` of a record, those that are known."""
    given = {name: getattr(record, attribute, None) for name, attribute in _FIELDS.items()}
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, TreadleError):
        told = {**error.details, "code": error.code}
        given = {name: value or told.get(_FIELDS[name]) for name, value in given.items()}
    return {name: _plain(str(value)) for name, value in given.items() if value is not None}


class _OfExecution(logging.Filter):
    """Notes on a record which execution's body it comes from; runs where the record is made."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add what is known, and let everything through."""
        execution = current_execution.get()
        if execution is not None:
            for attribute, value in (("thread_id", execution.thread_id), ("execution_id", execution.id)):
                if getattr(record, attribute, None) is None:
                    setattr(record, attribute, value)
        return True


class TextLines(logging.Formatter):
    """One line a record: time, level, logger, message, fields; a traceback below it."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record. What comes from outside makes no line of its own: control characters are escaped."""
        fields = "".join(f" {name}={value}" for name, value in fields_of(record).items())
        head = f"{_time(record)} {record.levelname} {record.name}: {_plain(_message(record))}{fields}"
        return "\n".join([head, *filter(None, (_traceback(self, record),))])


class JsonLines(logging.Formatter):
    """One JSON object a line: `time`, `level`, `logger`, `message`, the fields, `traceback`."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record, whatever it holds."""
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
            **fields_of(record),
        }
        told = _traceback(self, record)
        if told:
            line["traceback"] = told
        return json.dumps(line)


def configure_logging(
    form: Literal["text", "json"] = "text", level: int | str = "INFO", stream: TextIO | None = None
) -> logging.Handler:
    """Write all records of this process to a stream; for a program of its own, as `treadle serve`, and not for a library.

    Args:
        form: of the lines.
        level: from which on records are written.
        stream: standard error by default.

    Returns:
        The handler, which took the place of an earlier one of this function.

    Raises:
        InvalidInput: `invalid_option`: there is no such form or level. Nothing was changed.
    """
    if form not in ("text", "json"):
        raise wrong("form", "'text' or 'json'", form)
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.set_name("treadle")
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    handler.addFilter(_OfExecution())
    root = logging.getLogger()
    try:
        root.setLevel(level)
    except (ValueError, TypeError):
        raise wrong("level", "one of logging's, 'INFO' or logging.INFO", level) from None
    for earlier in [each for each in root.handlers if each.get_name() == "treadle"]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    for chatty in ("uvicorn", "httpx", "httpcore"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    return handler


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001 - a record that cannot be written must not be lost, nor harm who made it
        return f"{shorten(record.msg)} with {shorten(record.args)}, which do not fit: {type(error).__name__}"


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = [formatter.formatException(record.exc_info)] if record.exc_info and record.exc_info[0] is not None else []
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    return "\n".join(parts)


def _plain(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if unicodedata.category(c)[0] not in "CZ" or c == " " else ascii(c)[1:-1] for c in text)
