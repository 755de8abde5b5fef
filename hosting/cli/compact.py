"""Owns `treadle compact`: what is asked for and what is printed. How a store is compacted, storage knows."""

from __future__ import annotations

from ...storage.copying import compact as compact_store
from .ending import JsonOption, ending, say
from .places import DataArgument

__all__ = ["compact"]


@ending
def compact(
    data: DataArgument,
    as_json: JsonOption = False,
) -> None:
    """Give the free pages of a store back to the disk; only while no server works on it.

    A store uses free pages again by itself; this is for one that has shrunk for good. It needs room for a second copy, and
    the old file goes only once the new one is synced and checked. A compaction that was killed is run again.

    \b
    Examples:
      treadle compact data
      treadle compact data --json
    """
    done = compact_store(data)
    found = {"path": done.path, "before": done.before, "after": done.after, "threads": done.report.threads}
    say(found, f"{done.path}: {done.before:,} bytes before, {done.after:,} after; {done.report}", as_json=as_json)
