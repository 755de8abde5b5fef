"""Owns docs/api.md: writes it from the signatures and docstrings of what users call, so that it cannot say anything else.

Run it after a change of any of them; a test holds that the page is fresh.
"""

# ruff: noqa: INP001 - a page of docs with its maker, no package
from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Final

from treadle.actors import (
    ActiveExecution,
    ControlReceipt,
    Disposition,
    ExecutionRecord,
    Explanation,
    Message,
    Receipt,
    Reply,
    RespondStatus,
    Runtime,
    Thread,
    ThreadLiveState,
    ThreadStatus,
    Withdrawal,
)
from treadle.agents import ExecutionState, ThreadState, agent
from treadle.storage import LmdbStore, MemoryStore

PAGE = Path(__file__).with_name("api.md")

_HEAD = """\
# What can be called

Made from signatures and docstrings by `docs/make_api.py`. Do not edit: change these, then run `python docs/make_api.py`.
Notes in brackets such as "contract D.3" name rows of [what was asked for](contract.md); "semantics" and "design" name the
pages of the project's plan, which says the same as this documentation.

Whatever crosses to a thread returns a `Reply`: `await` it, or `.result(timeout=None)` on a worker. All errors of a call
come through its reply and have a stable `code`: [errors](errors.md). For declared agents (`Agent`, `Prompt`, `@tool`,
...) see [declared agents](agents.md), for tests [testing](testing.md).
"""

_CLASSES: Final = {
    "In your program": (Runtime, Thread, Reply, LmdbStore, MemoryStore),
    "Inside an agent": (agent, ThreadState, ExecutionState),
}
_VALUES: Final = {
    "What comes back": (Receipt, ControlReceipt, ActiveExecution, ExecutionRecord, ThreadStatus, ThreadLiveState, Explanation,
                        Message),
}  # fmt: skip
_WORDS: Final = (Disposition, Withdrawal, RespondStatus)
_WIDTH: Final = 110


def page() -> str:
    """Return the text of the page."""
    parts = [_HEAD]
    for title, things in _CLASSES.items():
        parts.append(f"## {title}\n")
        for thing in things:
            parts += _class(thing) if inspect.isclass(thing) else _call(thing.__name__, thing, "###")
    for title, things in _VALUES.items():
        parts.append(f"## {title}\n")
        for thing in things:
            parts += _fields(thing)
    parts.append("## The words in them\n")
    parts += [f"- `{kind.__name__}`: {', '.join(f'`{one.value}`' for one in kind)}." for kind in _WORDS]
    return "\n".join(parts) + "\n"


def _class(kind: type) -> list[str]:
    parts = [f"### {kind.__name__}\n", "```text", _signature(kind.__name__, kind), "```\n", _text(kind), ""]
    for name, member in inspect.getmembers(kind):
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            parts.append(f"- `{name}`: {_text(member).splitlines()[0]}")
    parts.append("")
    calls = [found for found in inspect.getmembers(kind, inspect.isroutine) if not found[0].startswith("_")]
    for name, member in sorted(calls, key=lambda found: _place(found[1])):
        parts += _call(f"{kind.__name__}.{name}", member, "####")
    return parts


def _place(member: object) -> tuple[str, int]:
    """Order calls as their files do: they stand in groups there."""
    code = inspect.unwrap(getattr(member, "__func__", member)).__code__  # type: ignore[arg-type, attr-defined]
    return code.co_filename.rsplit("/", 1)[-1], code.co_firstlineno


def _call(name: str, call: object, level: str) -> list[str]:
    return [f"{level} {name}\n", "```text", _signature(name.rsplit(".", 1)[-1], call), "```\n", _text(call), ""]


def _fields(kind: type) -> list[str]:
    fields = getattr(kind, "_fields", None) or getattr(kind, "model_fields", None) or kind.__annotations__
    return [f"### {kind.__name__}\n", f"`{'`, `'.join(fields)}`\n", _text(kind), ""]


def _signature(name: str, call: object) -> str:
    given = inspect.signature(call)  # type: ignore[arg-type]
    shown: list[str] = []
    starred = False
    for one in given.parameters.values():
        if one.name == "self":
            continue
        if one.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            starred = True
            shown.append("*")
        shown.append(_parameter(one))
        if one.kind is inspect.Parameter.VAR_POSITIONAL:
            starred = True
    returns = "" if inspect.isclass(call) else f" -> {_annotation(given.return_annotation)}"
    line = f"{name}({', '.join(shown)}){returns}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {one}," for one in shown), f"){returns}"])


def _parameter(one: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(one.kind, "")
    name = f"{stars}{one.name}: {_annotation(one.annotation)}"
    if one.default is inspect.Parameter.empty:
        return name
    default = repr(one.default)
    return f"{name} = {'...' if default.startswith('<') else default}"


def _annotation(annotation: object) -> str:
    if annotation is inspect.Signature.empty:
        return "object"
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _text(thing: object) -> str:
    """Return a docstring as Markdown: its sections become bold words, their entries lists."""
    lines = []
    for line in (inspect.getdoc(thing) or "").splitlines():
        section = re.fullmatch(r"(Args|Returns|Raises|Attributes):", line)
        entry = re.match(r"    (\w[\w, ]*): (.*)", line)
        if section:
            lines += [f"*{section[1]}*", ""]
        elif entry:
            lines.append(f"- `{entry[1]}`: {entry[2]}")
        else:
            lines.append(line if not line.startswith("    ") else f"  {line.strip()}")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
