"""Owns what a forked child makes of its parent's runtimes: nothing of them runs in it. Does nothing in the parent.

A fork copies only the worker that forked. A mail put in the child would wait for a dispatcher that is not there, and a
`close()` for executions that never end, so every call is refused and every body fenced. No lock is taken: at the fork
another worker of the parent may have held any of them. A runtime of the child's own works: what a module keeps for all
runtimes begins anew.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .services import Services

__all__ = ["is_ours", "left", "opened", "renew_in_child"]

_open: weakref.WeakSet[Services] = weakref.WeakSet()


def opened(services: Services) -> None:
    """Note a runtime that workers of this process serve from now on."""
    _open.add(services)


def left(services: Services) -> None:
    """Note that a runtime is closed."""
    _open.discard(services)


def is_ours(services: Services) -> bool:
    """Say whether the workers of a runtime that is not closed are in this process."""
    return services in _open


def renew_in_child(module: dict[str, object], **made_by: Callable[[], object]) -> None:
    """Have names of a module bound anew in a forked child, as its locks: who held one at the fork is not there to let go."""
    os.register_at_fork(after_in_child=lambda: module.update({name: make() for name, make in made_by.items()}))


def _orphan_in_child() -> None:
    for services in list(_open):
        services.closing = True
        services.hub.orphan()
        services.directory.orphan()
        for live in list(services.running.values()):
            live.orphan()
        services.pool.orphan()
        services.release_lane.orphan()
    _open.clear()


os.register_at_fork(after_in_child=_orphan_in_child)
