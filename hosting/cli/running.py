"""Owns the commands about what a thread runs: wait for its end, have a tool called. Opens no store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from ...protocol.errors import ExecutionNotFound, InvalidInput, Unavailable
from ...protocol.receipts import Disposition, Receipt
from ..wire import execution_json
from .ending import Exit, JsonOption, ending, say
from .online import DEFAULT_URL, RepeatId, ThreadId, Token, Url, connect, say_receipt
from .printing import record_line

if TYPE_CHECKING:
    from ..client import ThreadClient

__all__ = ["call", "wait"]


@ending
def wait(
    thread: ThreadId,
    execution: Annotated[
        str | None,
        typer.Option(help="The execution meant; by default the one at work, or the last.", show_default=False),
    ] = None,
    input_id: Annotated[
        str | None, typer.Option("--id", help="The one that the input of this id comes to.", show_default=False)
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="Wait no longer.", show_default=False)
    ] = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: JsonOption = False,
) -> None:
    """Wait until an execution is over; say how it ended.

    Exits with 0 where it succeeded, with 1 where it did not, and with 3 where it has not ended in time.

    \b
    Examples:
      treadle send mia --id order-7 'Where is my parcel?' && treadle wait mia --id order-7
      treadle wait mia --timeout 60 --json | jq .error
    """
    if execution is not None and input_id is not None:
        raise InvalidInput("--execution and --id name one thing each", code="usage")
    with connect(url, token) as client:
        handle = client.thread(thread)
        target = _last(handle) if execution is None and input_id is None else execution
        try:
            record = handle.wait(
                target if target is not None else Receipt(Disposition.QUEUED, input_id), timeout=timeout
            )
        except TimeoutError as error:
            raise Unavailable(str(error), thread_id=thread) from error
    say(execution_json(record), record_line(record), as_json=as_json)
    if record.status != "succeeded":
        raise typer.Exit(Exit.BROKEN)


def _last(handle: ThreadClient) -> str:
    active = handle.state().active_execution
    if active is not None:
        return active.execution_id
    page = handle.executions(limit=1).executions
    if not page:
        raise ExecutionNotFound(f"thread {handle.id!r} has run nothing yet", thread_id=handle.id)
    return page[0].execution_id


@ending
def call(
    thread: ThreadId,
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="The tool's name.", show_default=False)],
    args: Annotated[str, typer.Argument(metavar="[ARGS]", help="What it is called with: a JSON object.")] = "{}",
    input_id: RepeatId = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: JsonOption = False,
) -> None:
    """Have a tool of the agent called at the next boundary, or at once where nothing runs. An admin's to do.

    \b
    Examples:
      treadle call mia send_letter '{"to": "mia"}'
      treadle call mia refresh --id nightly && treadle wait mia --id nightly
    """
    try:
        given = json.loads(args)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"ARGS is no JSON: {error}", code="usage") from error
    with connect(url, token) as client:
        receipt = client.thread(thread).queue_tool(tool, given, input_id=input_id)
    say_receipt(receipt, as_json=as_json, hint="treadle show says what runs")
