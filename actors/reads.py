"""Owns what is read of a thread outside its mailbox: messages, executions, values, receipts. Writes nothing.

Every function blocks its caller for one page of reads. What is shown is durable; executions are shown as of the
published head, so that whoever sees a FINISH finds the slot free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..protocol.errors import ExecutionNotFound, InputNotFound, InvalidInput, shorten
from ..protocol.events import ThreadCreated
from ..protocol.ids import check_id, check_internal, check_key, check_name
from ..protocol.limits import PAGE_DEFAULT, PAGE_MAX, VALUES_PAGE_MAX
from ..protocol.receipts import ControlReceipt, Receipt
from ..storage.page_bytes import PageBytes
from ..storage.pages import MessageReader, read_execution, read_executions, unpublished_executions
from ..storage.reading import read_event, read_prior, read_receipt, read_thread
from ..storage.value_rows import ValueEntry, read_value, read_values

if TYPE_CHECKING:
    from ..protocol.executions import ExecutionRecord
    from ..protocol.facts import Facts
    from ..protocol.messages import Message
    from ..storage.store import Store, View
    from .directory import Entry
    from .hub import Watched
    from .services import Services

__all__ = ["ExecutionPage", "MessagePage", "Order", "ValuePage"]

Order = Literal["asc", "desc"]


class MessagePage(NamedTuple):
    """A page of messages; `total` counts all that the filter lets through, waiting ones included."""

    messages: list[Message]
    total: int
    has_more: bool


class ValuePage(NamedTuple):
    """A page of values; it may be shorter than its limit where they are large."""

    values: list[ValueEntry]
    has_more: bool


class ExecutionPage(NamedTuple):
    """A page of execution records, oldest first unless asked otherwise."""

    executions: list[ExecutionRecord]
    total: int
    has_more: bool


def check_number(name: str, value: object, low: int, high: int) -> int:
    """Return a whole number within bounds. Raises: InvalidInput: `invalid_page`."""
    if type(value) is not int or not low <= value <= high:
        raise InvalidInput(
            f"{name} must be a whole number from {low} to {high}, not {shorten(value)}",
            code="invalid_page",
            value=shorten(value),
        )
    return value


def check_flag(name: str, value: object) -> bool:
    """Return a truth value. Raises: InvalidInput: `invalid_page`."""
    if type(value) is not bool:
        raise InvalidInput(f"{name} is a bool, not {shorten(value)}", code="invalid_page", value=shorten(value))
    return value


def check_order(order: object) -> Order | None:
    """Return an order. Raises: InvalidInput: `invalid_page`."""
    if order is None or order in ("asc", "desc"):
        return order
    raise InvalidInput(f"order is 'asc' or 'desc', not {shorten(order)}", code="invalid_page", value=shorten(order))


def facts_of(view: View, entry: Watched) -> Facts:
    """Return what is known of a thread, as it is stored. Raises: ThreadNotFound."""
    found = read_thread(view, entry.number)
    if found is None:
        from .directory import not_found

        raise not_found(entry.thread_id)
    return found[1]


def read_messages(
    services: Services, entry: Entry, *, limit: object = PAGE_DEFAULT, offset: object = 0, order: object = None,
    include_silent: object = False, max_depth: object = 0, bytes_max: int | None = None,
) -> MessagePage:  # fmt: skip
    """Return a page of messages as in contract D.3; what waits is listed after all history."""
    limit = check_number("limit", limit, 0, PAGE_MAX)
    offset = check_number("offset", offset, 0, 2**53)
    depth = check_number("max_depth", max_depth, 0, 64)
    silent = check_flag("include_silent", include_silent)
    order = check_order(order)
    newest_first = order != "asc"
    room = _room(bytes_max, from_end=newest_first)
    with services.store.view() as view:
        facts = facts_of(view, entry)
        reader = MessageReader(view, entry.number, facts.generation, room)
        classes = _classes(facts, depth, include_silent=silent)
        joined = sum(facts.counts[kind] for kind in classes)
        total = _total(facts, classes, include_silent=silent)
        # Ascending ranks of the page within [history, waiting].
        low, high = (
            (max(0, total - offset - limit), max(0, total - offset)) if newest_first else (offset, offset + limit)
        )
        page = _slice(reader, classes, facts, joined, low, min(high, total), room, include_silent=silent)
    if order == "desc":
        page.reverse()
    return MessagePage(page, total, offset + len(page) < total)


def _slice(
    reader: MessageReader, classes: list[int], facts: Facts, joined: int, low: int, high: int, room: PageBytes | None, *,
    include_silent: bool,
) -> list[Message]:  # fmt: skip
    """Return the messages at ranks `low` to `high`: of history, and of what waits behind it."""

    def history() -> list[Message]:
        return _history(reader, classes, facts, joined, low, min(high, joined))

    def waiting() -> list[Message]:
        if high <= joined:
            return []
        start = max(0, low - joined)
        return reader.queued(
            include_silent=include_silent,
            offset=start,
            limit=high - joined - start,
            failed_through=facts.failed_through,
        )

    if room is None:
        return history() + waiting()
    # From the end at which the page begins: where there is no more room, nothing beyond is read.
    if room.from_end:
        last = waiting()
        return last if room.is_full else history() + last
    first = history()
    return first if room.is_full else first + waiting()


def _history(
    reader: MessageReader, classes: list[int], facts: Facts, joined: int, low: int, upto: int
) -> list[Message]:
    """Return the joined messages at ranks `low` to `upto`, reading from whichever end is nearer."""
    if low >= upto or not classes:
        return []
    if joined == sum(facts.counts.values()):
        return places(reader, facts, low, upto)  # all of history
    if low <= joined - upto:
        return reader.page(classes, offset=low, limit=upto - low, newest_first=False)
    page = reader.page(classes, offset=joined - upto, limit=upto - low, newest_first=True)
    page.reverse()
    return page


def _room(bytes_max: int | None, *, from_end: bool) -> PageBytes | None:
    return None if bytes_max is None else PageBytes(bytes_max, from_end=from_end)


def places(reader: MessageReader, facts: Facts, low: int, high: int) -> list[Message]:
    """Return the messages at places `low` to `high` of all history, whichever these are, at a cost that no length changes."""
    classes = sorted(facts.counts)
    if facts.messages == sum(facts.counts.values()):
        return reader.between(classes, low, high)  # nothing was ever deleted: places are positions
    return reader.ranked(classes, low, high)


def read_beside(
    services: Services, entry: Entry, before: object, after: object, *, limit: object = PAGE_DEFAULT, offset: object = 0,
    order: object = None, include_silent: object = False, max_depth: object = 0, bytes_max: int | None = None,
) -> MessagePage:  # fmt: skip
    """Return the joined messages next to one, oldest first unless asked otherwise, at a cost that no distance changes."""
    if before is not None and after is not None:
        raise InvalidInput("give before or after, not both", code="invalid_page", value=shorten(after))
    given = check_id("message_id", after if before is None else before)
    limit = check_number("limit", limit, 0, PAGE_MAX)
    check_number("offset, where a message names the place,", offset, 0, 0)
    newest_first = check_order(order) == "desc"
    depth = check_number("max_depth", max_depth, 0, 64)
    silent = check_flag("include_silent", include_silent)
    room = _room(bytes_max, from_end=before is not None)
    with services.store.view() as view:
        facts = facts_of(view, entry)
        classes = _classes(facts, depth, include_silent=silent)
        reader = MessageReader(view, entry.number, facts.generation, room)
        page = reader.beside(given, classes, limit=limit + 1, before=before is not None)
    more = len(page) > limit
    if more:
        page = page[1:] if before is not None else page[:-1]
    if newest_first:
        page.reverse()
    return MessagePage(page, _total(facts, classes, include_silent=silent), more or (room is not None and room.is_full))


def _classes(facts: Facts, depth: int, *, include_silent: bool) -> list[int]:
    return [kind for kind in sorted(facts.counts) if kind // 2 <= depth and (include_silent or not kind % 2)]


def _total(facts: Facts, classes: list[int], *, include_silent: bool) -> int:
    waiting = facts.queued_plain + (facts.queued_silent if include_silent else 0)
    return sum(facts.counts[kind] for kind in classes) + waiting


def read_message(services: Services, entry: Entry, message_id: object) -> Message | None:
    """Return a message by id, at any depth, waiting ones included; None where there is none."""
    return find_message(services.store, entry, message_id)


def find_message(store: Store, entry: Watched, message_id: object) -> Message | None:
    """Return a message by id, as `read_message`: all that it takes is the store."""
    given = check_id("message_id", message_id)
    with store.view() as view:
        facts = facts_of(view, entry)
        return MessageReader(view, entry.number, facts.generation).find(given, facts.failed_through)


def read_thread_value(services: Services, entry: Entry, key: object) -> Any:
    """Return a value, or None. Raises: InvalidInput: `invalid_name`, `reserved_name`."""
    name = check_key(key)
    with services.store.view() as view:
        return read_value(view, entry.number, name)


def read_internal(services: Services, entry: Entry, key: object) -> Any:
    """Return a value of the runtime's own layers, or None. Raises: InvalidInput: `invalid_name`."""
    name = check_internal(key)
    with services.store.view() as view:
        return read_value(view, entry.number, name)


def value_page(
    services: Services, entry: Entry, *, search: object = None, limit: object = PAGE_DEFAULT, offset: object = 0
) -> ValuePage:
    """Return a page of the thread's values as in contract D.5: those of its user, in the order of their keys."""
    limit = check_number("limit", limit, 0, VALUES_PAGE_MAX)
    offset = check_number("offset", offset, 0, 2**53)
    wanted = None if search is None else check_name("search", search)
    with services.store.view() as view:
        return ValuePage(*read_values(view, entry.number, search=wanted, offset=offset, limit=limit))


def read_created(services: Services, entry: Entry) -> ThreadCreated:
    """Return what a thread was created with."""
    with services.store.view() as view:
        facts = facts_of(view, entry)
        _, event = read_event(view, entry.number, facts.generation, 1)
    assert isinstance(event, ThreadCreated), event
    return event


def execution_record(services: Services, entry: Entry, execution_id: object) -> ExecutionRecord:
    """Return an execution's record as of the published head.

    Raises:
        ExecutionNotFound: the thread has no such execution.
    """
    given = check_id("execution_id", execution_id)
    snapshot = services.directory.snapshot(entry)
    live = snapshot.active.execution_id if snapshot.active else None
    with services.store.view() as view:
        record = read_execution(
            view, entry.number, snapshot.cursor.generation, given, live_id=live, through=snapshot.cursor.sequence
        )
    if record is None:
        raise ExecutionNotFound(
            f"thread {entry.thread_id!r} has no execution {given!r}", thread_id=entry.thread_id, execution_id=given
        )
    return record


def execution_page(
    services: Services, entry: Entry, *, limit: object = PAGE_DEFAULT, offset: object = 0, order: object = "desc",
    bytes_max: int | None = None,
) -> ExecutionPage:  # fmt: skip
    """Return a page of execution records, newest first by default."""
    limit = check_number("limit", limit, 0, PAGE_MAX)
    offset = check_number("offset", offset, 0, 2**53)
    newest_first = check_order(order) != "asc"
    snapshot = services.directory.snapshot(entry)
    live = snapshot.active.execution_id if snapshot.active else None
    with services.store.view() as view:
        facts = facts_of(view, entry)
        through = snapshot.cursor.sequence
        # What is ahead of the head is no part of any page: left out of one, it would leave a page too short, or empty.
        ahead = unpublished_executions(view, entry.number, through) if facts.sequence > through else 0
        total = facts.executions - ahead
        records = read_executions(
            view, entry.number, facts.generation, offset=offset + ahead if newest_first else offset, limit=limit,
            newest_first=newest_first, live_id=live, through=through, room=_room(bytes_max, from_end=False),
        )  # fmt: skip
    return ExecutionPage(records, total, offset + len(records) < total)


def read_recorded(services: Services, entry: Entry, given_id: object) -> Receipt | ControlReceipt:
    """Return the first receipt under an input or control id.

    Raises:
        InputNotFound: nothing was accepted or queued under it.
    """
    given = check_id("id", given_id)
    with services.store.view() as view:
        prior = read_prior(view, entry.number, facts_of(view, entry).generation, given)
    if prior is None or prior.receipt is None:
        raise InputNotFound(
            f"thread {entry.thread_id!r} accepted nothing under {given!r}", thread_id=entry.thread_id, id=given
        )
    receipt: Receipt | ControlReceipt = prior.receipt
    return receipt


def followed_input(view: View, number: int, generation: int, given: str) -> tuple[int, str | None] | None:
    """Return what became of an input: its receipt state and, once it joined, the execution it joined; None if unknown."""
    row = read_receipt(view, number, given)
    if row is None:
        return None
    if row.about == 0:
        return row.state, None
    _, event = read_event(view, number, generation, row.about)
    return row.state, getattr(event, "execution_id", None)
