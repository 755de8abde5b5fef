"""Owns the creation of threads: one batch, one id once. Starts nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.decision import Decision, Phase, Verdict
from ..protocol.errors import (
    AgentNotFound,
    InvalidInput,
    RuntimeClosed,
    ThreadExists,
    TreadleError,
    shorten,
)
from ..protocol.events import ThreadCreated
from ..protocol.facts import Facts
from ..protocol.ids import check_id
from ..protocol.values import JsonObject, check_value
from ..protocol.variables import is_variable_name, is_variable_value
from ..storage.batch import Answer
from ..storage.reading import thread_number
from .bodies import tell_created
from .building import Building
from .checks import check_tags
from .handle import Thread
from .mailbox import Mail
from .reply import Reply
from .services import new_id
from .snapshot import at_rest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .services import Services

__all__ = ["create_thread"]


def create_thread(
    services: Services | None,
    agent: object,
    *,
    thread_id: object = None,
    user_id: object = None,
    arguments: object = None,
    tags: Iterable[object] = (),
    env: object = None,
) -> Reply[Thread]:
    """Create a thread; durable when the reply is there. Blocks for one read where an id is given.

    Args:
        services: of the runtime; None before it is open.
        agent: registered with it, or the name of one.
        thread_id, user_id, arguments, tags, env: as `Runtime.create_thread` says.
    """
    reply: Reply[Thread] = Reply()
    reserved: str | None = None
    try:
        if services is None or services.closing:
            raise RuntimeClosed("the runtime is not open: enter it with `with` or `async with`, or it was closed")
        name = getattr(agent, "name", agent)
        if not isinstance(name, str) or name not in services.agents:
            raise AgentNotFound(f"no agent {shorten(name)} is registered", agent=shorten(name))
        now = services.clock.now_us()
        given = new_id(now) if thread_id is None else check_id("thread_id", thread_id)
        event = ThreadCreated(
            thread_id=given,
            agent_id=name,
            user_id=None if user_id is None else check_id("user_id", user_id),
            arguments=_check_arguments(arguments),
            tags=check_tags(tags),
            env=_check_env(env),
        )
        if thread_id is not None:
            reserved = _reserve(services, given)
    except TreadleError as error:
        reply.fail(error)
        return reply
    _hand_over(services, event, now, reserved, reply)
    return reply


def _reserve(services: Services, given: str) -> str:
    if not services.directory.reserve(given):
        raise _exists(given)
    try:
        with services.store.view() as view:
            if thread_number(view, given) is not None:
                raise _exists(given)
    except BaseException:
        services.directory.settle_reservation(given)
        raise
    return given


def _exists(given: str) -> ThreadExists:
    return ThreadExists(f"thread {given!r} was created before", thread_id=given)


def _hand_over(services: Services, event: ThreadCreated, now: int, reserved: str | None, reply: Reply[Thread]) -> None:
    facts = Facts()
    number = services.directory.take_number()
    building = Building(number, facts)
    building.take(Mail(None, reply), Decision(Verdict.DECIDE, Phase.IDLE, [event]), now)
    facts.fold(event, now)

    def finish(answer: Answer) -> None:
        if reserved is not None:
            services.directory.settle_reservation(reserved)
        if answer.kind != "committed":
            error = answer.error
            assert error is not None
            reply.fail(_exists(event.thread_id) if error.code == "append_conflict" else error)
            return
        entry = services.directory.enter(event.thread_id, number)
        services.hub.published(entry, None, at_rest(number, facts), [], answer.change)
        thread = Thread(services, event.thread_id, entry)
        reply.set(thread)
        services.hub.flush(entry)
        tell_created(services, event.agent_id, thread)

    def confirm(answer: Answer) -> None:
        # Publishing belongs to the dispatcher's worker; a runtime that closed meanwhile has no watchers left.
        if not services.dispatcher.call(lambda: finish(answer)):
            finish(answer)

    building.seal(facts, services.boot.number, services.directory.next_life(), confirm)
    services.store.commit(building)


def _check_arguments(arguments: object) -> JsonObject | None:
    if arguments is None:
        return None
    if not isinstance(arguments, dict):
        raise InvalidInput(
            f"arguments is a dict, not {shorten(arguments)}",
            code="invalid_value",
            path="$.arguments",
            value=shorten(arguments),
        )
    checked = check_value(arguments, path="$.arguments")
    assert isinstance(checked, dict)
    return checked


def _check_env(env: object) -> dict[str, str] | None:
    if env is None:
        return None
    # No value is shown, whatever is wrong with it: it may be a secret.
    if not isinstance(env, dict):
        raise _bad_env("env is a dict of names to strings", "$.env", type(env).__name__)
    variables: dict[str, str] = {}
    for name, value in env.items():
        # What no process could be given is refused here, and not by the first process of a thread that is stored.
        if not is_variable_name(name):
            raise _bad_env("a variable's name is not empty and holds neither '=' nor NUL", "$.env", name)
        if not is_variable_value(value):
            raise _bad_env("a variable is a string without NUL", f"$.env.{shorten(name, 40)}", type(value).__name__)
        variables[str.__str__(name)] = str.__str__(value)  # of a subclass the text alone
    check_value(variables, path="$.env")  # how large all are together
    return variables


def _bad_env(said: str, path: str, value: object) -> InvalidInput:
    return InvalidInput(f"{said}, not {shorten(value)}", code="invalid_value", path=path, value=shorten(value))
