"""Owns the commands that speak to a server: look at threads, talk to one, follow it. Opens no store."""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from ...protocol.errors import InvalidInput, ThreadExists, TreadleError
from ...protocol.receipts import Disposition
from ..client import Client
from ..client_following import Backoff
from ..wire import executions_json, explanation_json, messages_json, receipt_json, state_json, thread_json, threads_json
from .ending import Exit, JsonOption, ending, say
from .printing import change_line, event_line, print_line, print_thread, print_threads, receipt_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...actors import ControlReceipt, Receipt
    from ...protocol.values import JsonObject
    from ..client import ThreadClient
    from ..client_streams import EventStream

__all__ = [
    "DEFAULT_URL", "RepeatId", "ThreadId", "Token", "Url", "connect", "say_receipt", "send", "show", "steer", "stop", "tail", "threads",
]  # fmt: skip

DEFAULT_URL = "http://127.0.0.1:8642"
_COMPLETION_S = 2.0  # who types waits no longer
_COMPLETED = 1_000
# A person at a terminal repeats a command sooner than a program would; whoever follows waits for a server to come back.
_ONCE = Backoff(attempts=1)
_EVER = Backoff(attempts=None)

Url = Annotated[str, typer.Option("--url", envvar="TREADLE_URL", metavar="URL", help="Where the server is.")]
Token = Annotated[
    str | None, typer.Option("--token", envvar="TREADLE_TOKEN", metavar="TOKEN", show_default=False,
                             help="A bearer token. Others on this machine see options; the variable they do not.")
]  # fmt: skip


def _known(context: typer.Context, incomplete: str) -> list[str]:
    """Complete a thread's id, the latest first; a server that is not there leaves it to who types."""
    url, token = (context.params.get("url") or DEFAULT_URL), context.params.get("token")
    try:
        with Client(url, token or None, timeout=_COMPLETION_S, repeats=_ONCE) as client:
            page = client.threads(order="activity", limit=_COMPLETED)
    except TreadleError:
        return []
    return [one.id for one in page.threads if one.id.startswith(incomplete)]


RepeatId = Annotated[
    str | None, typer.Option("--id", help="Makes it repeatable: the same id is taken once.", show_default=False)
]
ThreadId = Annotated[
    str, typer.Argument(metavar="THREAD", help="The thread's id.", show_default=False, autocompletion=_known)
]
Text = Annotated[str, typer.Argument(metavar="TEXT", help="What to say; - reads it from stdin.", show_default=False)]


class State(StrEnum):
    """A run status."""

    idle = "idle"
    running = "running"
    failed = "failed"


class Order(StrEnum):
    """The order of a list."""

    created = "created"
    activity = "activity"


class OnBusy(StrEnum):
    """What an input does where another one runs."""

    reject = "reject"
    queue = "queue"
    steer = "steer"
    interrupt = "interrupt"


@ending
def threads(
    state: Annotated[State | None, typer.Option(help="Only threads in this state.", show_default=False)] = None,
    agent: Annotated[str | None, typer.Option(help="Only threads of this agent.", show_default=False)] = None,
    user: Annotated[str | None, typer.Option(help="Only threads of this user.", show_default=False)] = None,
    order: Annotated[Order, typer.Option(help="Oldest first, or the latest change first.")] = Order.activity,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="So many threads at most.")] = 100,
    after: Annotated[str | None, typer.Option(help="Go on where a page ended.", show_default=False)] = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: JsonOption = False,
) -> None:
    """List the threads that this token sees.

    \b
    Examples:
      treadle threads
      treadle threads --state running
      treadle threads --user mia --json | jq -r '.threads[].id'
    """
    with connect(url, token) as client:
        page = client.threads(
            user_id=user, agent=agent, state=state and state.value, order=order.value, limit=limit, after=after
        )
    if as_json:
        _say_json(threads_json(page, unreadable=True))
    else:
        print_threads(page)


@ending
def show(
    thread: ThreadId,
    messages: Annotated[
        int, typer.Option("--messages", "-n", min=0, max=1_000, help="So many of its last messages.")
    ] = 10,
    executions: Annotated[int, typer.Option(min=0, max=1_000, help="So many of its last executions.")] = 5,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: JsonOption = False,
) -> None:
    """Show one thread: who holds it, what waits, what comes next, and what was said last.

    \b
    Examples:
      treadle show mia
      treadle show mia --messages 50
      treadle show mia --json | jq .explanation.next
    """
    with connect(url, token) as client:
        handle = client.thread(thread)
        summary, state, explanation = handle.summary(), handle.state(), handle.explain()
        said = handle.messages(limit=messages, order="desc")
        while said.has_more and len(said.messages) < messages:
            # Large ones come in more pages.
            beyond = handle.messages(limit=messages - len(said.messages), offset=len(said.messages), order="desc")
            said = beyond._replace(messages=said.messages + beyond.messages)
        said.messages.reverse()
        runs = handle.executions(limit=executions)
    if as_json:
        _say_json(
            {
                "thread": thread_json(summary),
                "state": state_json(state),
                "explanation": explanation_json(explanation),
                "messages": messages_json(said)["messages"],
                "executions": executions_json(runs)["executions"],
            }
        )
    else:
        print_thread(summary, state, explanation, said, runs)


@ending
def send(
    thread: ThreadId,
    text: Text,
    on_busy: Annotated[OnBusy, typer.Option(help="What to do where the thread is at work.")] = OnBusy.reject,
    input_id: RepeatId = None,
    create: Annotated[
        str | None,
        typer.Option(
            "--create", metavar="AGENT", help="Create the thread first, where there is none.", show_default=False
        ),
    ] = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: JsonOption = False,
) -> None:
    """Send an input; say what became of it, and do not wait for what comes of it.

    Exits with 3 where the thread is busy: nothing was stored.

    \b
    Examples:
      treadle send mia 'Where is my parcel?'
      treadle send mia --create clerk 'Good morning'
      treadle send mia --on-busy queue --id order-7 - < letter.txt
    """
    content = _read(text)
    with connect(url, token) as client:
        if create is not None:
            _create(client, create, thread)
        receipt = client.thread(thread).submit(content, input_id=input_id, on_busy=on_busy.value)
    say_receipt(receipt, as_json=as_json, hint="--on-busy queue has it wait, --on-busy steer joins what runs")


@ending
def steer(
    thread: ThreadId,
    text: Text,
    execution: Annotated[
        str | None, typer.Option(help="The execution meant; by default the one at work now.", show_default=False)
    ] = None,
    control_id: RepeatId = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: JsonOption = False,
) -> None:
    """Give the execution at work something to read before its next step.

    Exits with 3 where it was not taken: nothing runs, or another execution does by now.

    \b
    Examples:
      treadle steer mia 'By letter, please'
      treadle steer mia --execution 06617fb8357e78f1 'Only the first one'
    """
    content = _read(text)
    with connect(url, token) as client:
        handle = client.thread(thread)
        # The server compares: what runs meanwhile instead of this one does not get it.
        target = execution if execution is not None else _active(handle)
        if target is None:
            found: JsonObject = {"disposition": Disposition.NO_ACTIVE_EXECUTION, "thread_id": thread}
            _refused(
                found, Disposition.NO_ACTIVE_EXECUTION, "nothing runs; treadle send starts something", as_json=as_json
            )
        receipt = handle.steer(target, content, control_id=control_id)
    say_receipt(receipt, as_json=as_json, hint="treadle show says what runs")


@ending
def stop(
    thread: ThreadId,
    execution: Annotated[
        str | None,
        typer.Option(help="End this execution and no other, and do not hold the thread.", show_default=False),
    ] = None,
    reason: Annotated[str | None, typer.Option(help="With --execution: why, for people.", show_default=False)] = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: JsonOption = False,
) -> None:
    """Interrupt whatever runs, and hold the thread: nothing that waits starts by itself. A next input lifts the hold.

    Succeeds where nothing runs, too. With --execution it exits with 3 where that one does not run.

    \b
    Examples:
      treadle stop mia
      treadle stop mia --execution 06617fb8357e78f1 --reason 'wrong customer'
    """
    if reason is not None and execution is None:
        raise InvalidInput("--reason goes with --execution", code="usage")
    with connect(url, token) as client:
        handle = client.thread(thread)
        if execution is None:
            receipt = handle.stop()
            say(receipt_json(receipt), receipt_line(receipt), as_json=as_json)
            return
        receipt = handle.interrupt(execution, reason=reason)
    say_receipt(receipt, as_json=as_json, hint="treadle show says what runs")


@ending
def tail(
    thread: Annotated[
        str | None,
        typer.Argument(
            metavar="[THREAD]", help="The thread's id; without one, all threads' status.", autocompletion=_known
        ),
    ] = None,
    after: Annotated[
        str | None, typer.Option(help="Begin behind this cursor: with what you have not seen.", show_default=False)
    ] = None,
    last: Annotated[int, typer.Option("--last", "-n", min=0, help="Without --after: so many of the last events.")] = 10,
    follow: Annotated[bool, typer.Option(help="Go on with what comes.")] = True,
    live: Annotated[bool, typer.Option("--live", help="Also pieces of messages while they are written.")] = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: JsonOption = False,
) -> None:
    """Follow the events of a thread, each once; over lost connections and restarts of the server, too.

    Ends by itself only where the thread is deleted. When it is interrupted it says how to go on. With --json each event is
    a line.

    \b
    Examples:
      treadle tail mia
      treadle tail mia --after 1:42
      treadle tail mia --last 1000 --no-follow --json > mia.jsonl
      treadle tail
    """
    if thread is None and not follow:
        raise InvalidInput(
            "--no-follow goes with a thread: the status of all of them is in treadle threads", code="usage"
        )
    with connect(url, token, sleep=_away) as client:
        if thread is None:
            start = after if after is not None else _first_change(client)
            _print_all(client.events(start), change_line, as_json=as_json)
            return
        handle = client.thread(thread)
        start = after if after is not None else _behind(handle, last)
        _print_all(handle.events(start, follow=follow, live=live), event_line, as_json=as_json)


def connect(url: str, token: str | None, *, sleep: Callable[[float], object] = time.sleep) -> Client:
    """Return the client of a command; who types repeats a call, and whoever follows waits for the server."""
    return Client(url, token or None, repeats=_ONCE, reconnects=_EVER, sleep=sleep)


def _read(text: str) -> str:
    if text != "-":
        return text
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"stdin is no UTF-8: {error.reason} at byte {error.start}", code="invalid_content"
        ) from error


def _create(client: Client, agent: str, thread_id: str) -> None:
    try:
        client.create_thread(agent, thread_id=thread_id)
    except ThreadExists:
        return


def _active(handle: ThreadClient) -> str | None:
    owner = handle.state().active_execution
    return None if owner is None else owner.execution_id


def _behind(handle: ThreadClient, last: int) -> str:
    head = handle.state().cursor
    return str(head._replace(sequence=max(0, head.sequence - last)))


def _first_change(client: Client) -> str:
    # Asked for with a call of its own, so that a server that is not there is said at once.
    client.threads(limit=1)
    return "0"


def _away(seconds: float) -> None:
    sys.stderr.write(f"treadle: connection lost; trying again in {seconds:.1f} s\n")
    sys.stderr.flush()
    time.sleep(seconds)


def _print_all(events: EventStream, line: Callable[[JsonObject], str], *, as_json: bool) -> None:
    with closing(events):
        try:
            for event in events:
                print_line(json.dumps(event, separators=(",", ":")) if as_json else line(event))
        except KeyboardInterrupt:
            if events.cursor is not None:
                sys.stderr.write(f"treadle: go on with --after {events.cursor}\n")
            raise


def _say_json(found: object) -> None:
    say(found, "", as_json=True)


def say_receipt(receipt: Receipt | ControlReceipt, *, as_json: bool, hint: str) -> None:
    """Say what became of a call; where it was not taken, end with the code for "not now"."""
    if receipt.disposition in {Disposition.ACCEPTED, Disposition.QUEUED}:
        say(receipt_json(receipt), receipt_line(receipt), as_json=as_json)
        return
    _refused(receipt_json(receipt), receipt_line(receipt), hint, as_json=as_json)


def _refused(found: JsonObject, line: str, hint: str, *, as_json: bool) -> NoReturn:
    """Say that it was not taken, and end with the code for "not now": as JSON it is an answer, else one line on stderr."""
    if as_json:
        _say_json(found)
    else:
        sys.stderr.write(f"treadle: {line}: {hint}\n")
    raise typer.Exit(Exit.NOT_NOW)
