"""Owns `treadle inspect` and `treadle check`: a look at a store, and the verdict on it, without a server."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...storage import LmdbStore
from ...storage.check import check as check_store
from ...storage.directory import DATA_FILE
from ...storage.owner import last_owner
from ...storage.schema import SCHEMA
from ...storage.survey import survey_store, survey_thread, survey_threads
from .ending import Exit, JsonOption, ending, say
from .places import DataArgument

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...protocol.facts import Facts
    from ...storage.survey import ThreadDetail, ThreadSurvey

__all__ = ["check", "inspect"]


class State(StrEnum):
    """A run status."""

    idle = "idle"
    running = "running"
    failed = "failed"


@ending
def inspect(
    data: DataArgument,
    thread: Annotated[
        str | None, typer.Argument(metavar="THREAD", help="Show this thread in detail.", show_default=False)
    ] = None,
    state: Annotated[State | None, typer.Option(help="Only threads in this state.", show_default=False)] = None,
    agent: Annotated[str | None, typer.Option(help="Only threads of this agent.", show_default=False)] = None,
    user: Annotated[str | None, typer.Option(help="Only threads of this user.", show_default=False)] = None,
    work: Annotated[bool, typer.Option("--work", help="Only threads that the next open has work with.")] = False,
    limit: Annotated[int, typer.Option(min=0, max=1_000_000, help="So many threads at most.")] = 100,
    after: Annotated[int, typer.Option(min=0, help="Go on behind the thread of this number.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Look into a store: its size, its threads, what waits in them; or at one thread in detail.

    Needs no server and no agents, changes nothing, and may look beside a server at work. `next open` is what a runtime will
    do first with a thread: recover an execution that was lost, start what waits, remove what was deleted.

    \b
    Examples:
      treadle inspect data
      treadle inspect data mia
      treadle inspect data --state failed --limit 20
      treadle inspect data --work --json
    """
    store = LmdbStore(data, read_only=True)
    store.open()
    with closing(store):
        if thread is not None:
            detail = detail_json(survey_thread(store, thread))
            say(detail, _detail_text(detail), as_json=as_json)
            return
        summary = _store_json(data, store)
        wanted = (
            thread_json(found)
            for found in survey_threads(store, after)
            if _passes(found, state and state.value, agent, user, work=work)
        )
        threads = list(islice(wanted, limit + 1))
    following = threads[limit - 1]["number"] if limit and len(threads) > limit else None
    found = {"store": summary, "threads": threads[:limit], "next": following}
    say(found, _text(summary, threads[:limit], following), as_json=as_json)


@ending
def check(
    data: DataArgument,
    as_json: JsonOption = False,
) -> None:
    """Judge a store: whether every table is what its journal says, and nothing in it leads nowhere.

    Reads all of it and changes nothing; a server may work on it meanwhile. Exits with 0 where all is well, 1 where an
    invariant is broken, 4 where it cannot be read as a store at all.

    \b
    Examples:
      treadle check data
      treadle check data --json | jq .broken
    """
    report = check_store(data)
    broken = [f"{one}\n" for one in report.broken]
    found = {**report._asdict(), "broken": [one._asdict() for one in report.broken]}
    say(found, f"{''.join(broken)}{report}", as_json=as_json)
    if report.broken:
        raise typer.Exit(Exit.BROKEN)


def thread_json(found: ThreadSurvey) -> dict[str, object]:
    """Return a thread of a list as JSON data; times in microseconds."""
    facts = found.facts
    if facts is None:
        return {"number": found.number, "error": found.error}
    return {
        "number": found.number,
        "id": facts.thread_id,
        "agent_id": facts.agent_id,
        "user_id": facts.user_id,
        "created_at": facts.created_at,
        "last_event_at": facts.last_time,
        "status": facts.status.to_wire(),
        "held": facts.held,
        "hold_reason": facts.hold_reason,
        "terminated_at": facts.terminated_at,
        "active_execution": facts.execution_id,
        "cursor": str(facts.cursor),
        "messages": sum(facts.counts.values()),
        "executions": facts.executions,
        "waiting": _waiting(facts),
        "open": {"calls": facts.open_calls, "requests": facts.pending, "processes": facts.processes},
        "next_open": found.work,
    }


def detail_json(detail: ThreadDetail) -> dict[str, object]:
    """Return one thread in detail as JSON data."""
    return {
        **thread_json(detail.survey),
        "created": detail.created.to_wire(),
        "last_executions": [{**one._asdict(), "error": one.error and one.error._asdict()} for one in detail.executions],
        "waiting_inputs": [
            {
                "input_id": row.input_id,
                "kind": row.kind,
                "messages": row.messages,
                "bytes": row.size,
                "first": row.first,
            }
            for row in detail.waiting
        ],
        "pending_requests": [{"opened_at": at, **event.to_wire()} for at, event in detail.requests],
        "open_calls": detail.calls,
        "process_groups": detail.processes,
        "tables": {name: {"rows": size.rows, "bytes": size.size} for name, size in detail.sizes.items()},
    }


def _waiting(facts: Facts) -> dict[str, int]:
    return {"messages": facts.waiting_messages, "submits": facts.waiting_submits, "steers": facts.steers}


def _passes(found: ThreadSurvey, state: str | None, agent: str | None, user: str | None, *, work: bool) -> bool:
    facts = found.facts
    if facts is None:
        return not (state or agent or user or work)
    return (
        (state is None or facts.state == state)
        and (agent is None or facts.agent_id == agent)
        and (user is None or facts.user_id == user)
        and (not work or found.work is not None)
    )


def _store_json(data: Path, store: LmdbStore) -> dict[str, object]:
    survey, owner = survey_store(store), last_owner(data)
    size = (data / DATA_FILE).stat().st_size
    used = sum(table.size for table in survey.tables.values())
    return {
        "path": str(data),
        "bytes": size,
        # Not to the byte: the first pages, and the list of free ones, belong to no table.
        "free_bytes": max(0, size - used),
        "schema": SCHEMA,
        "boot": survey.boot.number,
        "last_owner": None if owner is None else owner._asdict(),
        "tables": {name: {"rows": table.rows, "bytes": table.size} for name, table in survey.tables.items()},
        "next_open": survey.work,
    }


def _text(store: dict[str, object], threads: Sequence[dict[str, object]], following: object) -> str:
    owner, work = store["last_owner"], store["next_open"]
    assert isinstance(work, dict)
    who = "nobody yet"
    if isinstance(owner, dict):
        lives = {True: "lives", False: "is gone", None: "is of another host"}[owner["lives"]]
        who = f"process {owner['pid']} on {owner['host']}, which {lives}"
    lines = [
        f"{store['path']}: {store['bytes']:,} bytes, about {store['free_bytes']:,} of them free; boot {store['boot']}",
        f"last owner: {who}",
        f"next open: recovers {work['recover']} threads, starts {work['start']}, removes {work['remove']}",
        "",
        *_table(
            ("thread", "agent", "user", "state", "reason", "messages", "waiting", "next open", "last event"),
            [_row(thread) for thread in threads],
        ),
    ]
    if following is not None:
        lines.append(f"more: --after {following}")
    return "\n".join(lines)


def _row(thread: dict[str, object]) -> tuple[object, ...]:
    if "id" not in thread:
        return (f"#{thread['number']}", f"cannot be read: {thread['error']}")
    status, waiting = thread["status"], thread["waiting"]
    assert isinstance(status, dict)
    assert isinstance(waiting, dict)
    held = " (held)" if thread["held"] else ""
    return (
        thread["id"], thread["agent_id"], thread["user_id"], f"{status['state']}{held}", status["reason"],
        thread["messages"], sum(waiting.values()), thread["next_open"], _time(thread["last_event_at"]),
    )  # fmt: skip


def _detail_text(detail: dict[str, object]) -> str:
    return "\n".join(_flat("", detail))


def _flat(name: str, value: object) -> Iterator[str]:
    """Yield a line for every leaf, under its path."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _flat(f"{name}.{key}" if name else str(key), item)
    elif isinstance(value, list) and value:
        for rank, item in enumerate(value):
            yield from _flat(f"{name}[{rank}]", item)
    else:
        shown = _time(value) if name.endswith(("_at", ".since")) and isinstance(value, int) else _cell(value)
        yield f"{name}: {shown}"


def _table(head: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> Iterator[str]:
    cells = [list(head), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[rank]) for row in cells if rank < len(row)) for rank in range(len(head))]
    for row in cells:
        yield "  ".join(text.ljust(widths[rank]) for rank, text in enumerate(row)).rstrip()


def _cell(value: object) -> str:
    # What users chose may hold anything; a terminal is to see letters only.
    text = "-" if value is None or value in ([], {}, ()) else str(value)
    return "".join(char if char.isprintable() else "�" for char in text)


def _time(microseconds: object) -> str:
    assert isinstance(microseconds, int)
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
