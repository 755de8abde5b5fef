"""Owns a thread's log as a `ThreadState` writes and reads it. Shows it to no watcher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ..actors.own_thread import answer
from ..actors.reads import check_number, check_order
from ..actors.reply import Reply
from ..protocol.errors import TreadleError
from ..protocol.limits import PAGE_DEFAULT, PAGE_MAX
from .log_entries import read_entries, write_entry
from .state_parts import StateParts

if TYPE_CHECKING:
    from ..protocol.values import JsonObject
    from .log_entries import LogLevel

__all__ = ["ThreadLogs"]


class ThreadLogs(StateParts):
    """The part of a `ThreadState` that writes and reads the thread's log (contract D.11)."""

    __slots__ = ()

    def log(self, level: LogLevel, message: str, data: object = None) -> Reply[str]:
        """Write to the thread's log, which outlives the process and reaches no watcher.

        Args:
            level: `debug`, `info`, `warning` or `error`.
            message: text; beyond 8,192 characters it is cut.
            data: JSON data of at most 64 KiB.

        Returns:
            A reply with the entry's id once it is durable; secrets are taken out, and of 1,000 entries the oldest goes.
            Fails with InvalidInput, LimitExceeded or ExecutionFenced.
        """
        try:
            redactor = self.scene.env.redactor
        except TreadleError as error:
            return Reply.failed(error)
        return write_entry(self._access, redactor, self._running_id(), level, message, data)

    def get_logs(
        self, limit: int = PAGE_DEFAULT, offset: int = 0, order: Literal["asc", "desc"] = "desc"
    ) -> Reply[list[JsonObject]]:
        """Return a page of the thread's log; blocks for one read.

        Args:
            limit: at most so many, up to 1,000.
            offset: how many to skip, from the end where `order` begins.
            order: `desc` newest first, `asc` oldest first.

        Returns:
            A reply with entries of `id`, `type` (the level), `data`, `created_at` (microseconds) and `parent_id` (the
            execution, None at rest). Fails with InvalidInput: `invalid_page`.
        """

        def read() -> list[JsonObject]:
            most = check_number("limit", limit, 0, PAGE_MAX)
            skip = check_number("offset", offset, 0, 2**53)
            newest_first = check_order(order) != "asc"
            return read_entries(self._access, most, skip, newest_first=newest_first)

        return answer(read)
