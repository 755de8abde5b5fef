"""Owns the entries of a thread's log: their form, their bounds, their places. Decides not what is worth an entry.

Each is a value of the thread under `treadle:log:<id>`, ids sorting by time. The oldest go when there are too many.
"""

from __future__ import annotations

import threading
from itertools import count
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from weakref import WeakKeyDictionary

from ..actors.forking import renew_in_child
from ..actors.reply import Reply
from ..actors.services import new_id
from ..protocol.errors import InvalidInput, TreadleError, shorten
from ..protocol.values import JsonObject, Value, check_value
from ..storage.codec import unpack
from ..storage.keys import numbered, prefix_end, value_key
from ..storage.tables import Table
from .models.halves import clean

if TYPE_CHECKING:
    from ..actors.directory import Entry
    from .at_rest import ThreadAccess
    from .redaction import Redactor

__all__ = ["LOGS_MAX", "LogLevel", "read_entries", "write_entry"]

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]

LEVELS: Final = ("debug", "info", "warning", "error")
LOG_PREFIX: Final = "treadle:log:"
LOGS_MAX: Final = 1_000  # entries kept of a thread
LOG_MESSAGE_MAX: Final = 8_192  # characters; what is longer is cut
LOG_DATA_BYTES_MAX: Final = 65_536
PRUNE_EVERY: Final = 64  # entries between two looks for what is too much; so many may be there beyond the limit
_PRUNED_MAX: Final = 4 * PRUNE_EVERY  # taken out at one look

_written = count(1)
_lock = threading.Lock()  # one for all: it is held for one look into a dict, or for a read at a thread's first entry
renew_in_child(globals(), _lock=threading.Lock)
_last: WeakKeyDictionary[Entry, int] = WeakKeyDictionary()


def write_entry(
    access: ThreadAccess, redactor: Redactor, execution_id: str | None, level: object, message: object, data: object
) -> Reply[str]:
    """Store an entry without its secrets; what the reply gives and raises: `ThreadState.log`."""
    try:
        if level not in LEVELS or not isinstance(message, str):
            raise InvalidInput(
                f"an entry has a level of {', '.join(LEVELS)} and a text, not {shorten(level)} and {shorten(message)}",
                code="invalid_log",
                value=shorten(level),
            )
        checked = check_value(data, bytes_max=LOG_DATA_BYTES_MAX)
    except TreadleError as error:
        return Reply.failed(error)
    text = redactor.text(clean(message))
    said: JsonObject = {"message": text if len(text) <= LOG_MESSAGE_MAX else text[: LOG_MESSAGE_MAX - 1] + "…"}
    if checked is not None:
        said["data"] = redactor.data(checked)
    try:
        at = _time_of_next(access)
    except TreadleError as error:
        return Reply.failed(error)
    entry_id = new_id(at)
    entry: dict[str, Value] = {
        "id": entry_id,
        "type": str(level),
        "data": said,
        "created_at": at,
        "parent_id": execution_id,
    }
    reply: Reply[str] = Reply()

    def stored(done: Reply[None]) -> None:
        error = done.error()
        if error is None:
            reply.set(entry_id)
        else:
            reply.fail(error)

    access.set_internal(LOG_PREFIX + entry_id, entry).add_done_callback(stored)
    if next(_written) % PRUNE_EVERY == 0:
        _prune(access)
    return reply


def _time_of_next(access: ThreadAccess) -> int:
    """Return the time of a new entry: later than all before it, whatever the clock does, since ids sort by it."""
    entry = access.entry
    with _lock:
        last = _last.get(entry)
        if last is None:
            newest = read_entries(access, 1, 0, newest_first=True)
            last = newest[0]["created_at"] if newest else 0
        at = _last[entry] = max(access.services.clock.now_us(), last + 1)
    return at


def _prune(access: ThreadAccess) -> None:
    for entry in read_entries(access, _PRUNED_MAX, LOGS_MAX, newest_first=True):
        # Nobody waits for it: what stays is found at the next look.
        access.set_internal(LOG_PREFIX + entry["id"], None).add_done_callback(lambda reply: reply.error())


def read_entries(access: ThreadAccess, limit: int, skip: int, *, newest_first: bool) -> list[JsonObject]:
    """Return a page of entries; blocks for one read."""
    low = value_key(numbered(access.entry.number), LOG_PREFIX)
    with access.services.store.view() as view:
        rows = view.scan(Table.VALUES, low, prefix_end(low), reverse=newest_first, limit=limit, skip=skip)
        return [unpack(data, Table.VALUES, key) for key, data in rows]
