"""Owns what a runtime is given as agents: their form, their binding at open, their word on a thread that was created.

It calls the optional members of a body, `bind` and `created`, and runs none.
"""

from __future__ import annotations

import contextvars
import inspect
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..protocol.errors import InvalidDefinitions, InvalidInput, TreadleError, kind_of, shorten, text_of
from ..protocol.ids import check_id
from .reply import current_wait
from .waits import BodyWait

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .handle import Thread
    from .services import Body, Services

__all__ = ["bind", "by_name", "tell_created"]

logger = logging.getLogger("treadle")


def by_name(agents: Iterable[Body]) -> dict[str, Body]:
    """Return bodies under their names. Raises: InvalidInput: `invalid_agent`, `invalid_id`."""
    # A declared agent would give its fields, and text its letters.
    if callable(getattr(agents, "run", None)) or not isinstance(agents, Iterable):
        raise InvalidInput(
            f"agents is a list, agents=[...], and not {shorten(agents)}", code="invalid_agent", value=shorten(agents)
        )
    bodies: dict[str, Body] = {}
    for body in agents:
        name = getattr(body, "name", None)
        if not callable(getattr(body, "run", None)) or getattr(body, "runs_on", None) not in ("loop", "worker"):
            raise InvalidInput(
                f"{shorten(body)} is no agent: it needs name, runs_on ('loop' or 'worker') and run(execution); use @agent",
                code="invalid_agent",
                value=shorten(body),
            )
        name = check_id("agent name", name)
        if name in bodies:
            raise InvalidInput(f"two agents are named {name!r}", code="invalid_agent", value=name)
        bodies[name] = body
    return bodies


def bind(bodies: Mapping[str, Body]) -> None:
    """Have each body look at all of them, before anything is opened.

    Raises:
        InvalidDefinitions: with every problem that any of them has, each once.
    """
    problems: dict[str, None] = {}
    for name, body in bodies.items():
        look = getattr(body, "bind", None)
        if look is None:
            continue
        try:
            problems.update(dict.fromkeys(map(str, look(bodies))))
        except Exception as error:
            logger.exception("Agent %s could not be bound", name)
            problems[f"agent {name!r} could not be bound: {kind_of(error)}: {shorten(text_of(error), 300)}"] = None
    if problems:
        found = list(problems)
        count = "1 problem" if len(found) == 1 else f"{len(found)} problems"
        raise InvalidDefinitions(f"{count} with the definitions: {'; '.join(found)}", problems=found)


def tell_created(services: Services, agent_id: str, thread: Thread) -> None:
    """Have a thread's body hear of it, on a worker of the pool; never blocks, never raises.

    What goes wrong is logged and reported: the thread is there. It is told once, and never where the process ends first.
    """
    hear: Any = getattr(services.agents.get(agent_id), "created", None)
    if hear is None:
        return
    name = f"created {thread.id}"

    def ended(error: BaseException | None) -> None:
        if error is not None:
            logger.error("Agent %s failed with what it does for the new thread %s", agent_id, thread.id, exc_info=error)
            services.report("created_failed", {"thread_id": thread.id, "agent": agent_id, "error": error})

    def call() -> None:
        more = hear(thread)
        if inspect.isawaitable(more):
            # In a context of its own: this one is entered until the call is over.
            services.loop.run(name, lambda: more, ended, contextvars.Context())

    # Of no execution, whoever creates: the thread's first one is yet to come.
    context = contextvars.Context()
    context.run(current_wait.set, BodyWait(services.pool))
    try:
        services.pool.submit(name, call, ended, context)
    except TreadleError as error:
        ended(error)
