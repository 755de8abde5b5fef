"""Owns the calling of hooks: in declaration order, each within its time, its failures kept from what it watches.

A hook may raise, hang or return garbage: it is logged, and the original goes on. Only two failures go further, as the
table says. While a hook runs, what it does to the thread calls no hook again.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Final, NamedTuple

from ..actors.fence import ExecutionCancelled, ExecutionFenced
from ..actors.reply import Reply, current_body, current_wait
from ..protocol.errors import kind_of, shorten, text_of
from ..protocol.messages import Message
from .hooks import HOOK_SECONDS_MAX, HOOKS, HookBlocked, HookTimedOut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..actors.clock import TimerService
    from ..actors.workers import WorkerPool
    from .hooks import HookKind, HookLike

__all__ = ["HookRunner", "in_hook"]

logger = logging.getLogger("treadle")

LOGGED_CHARACTERS_MAX: Final = 2_000  # of an error's text

in_hook: ContextVar[bool] = ContextVar("treadle_in_hook", default=False)
"""Whether a hook runs here: what it does to the thread must not call hooks without end."""


class _Failure(NamedTuple):
    """How one call of a hook failed: `raised`, `timed_out` or `garbage`."""

    how: str
    error: BaseException


class HookRunner:
    """The hooks that hold for one agent and one of its prompts.

    Args:
        agent_hooks: of the agent, in declaration order.
        prompt_hooks: of the prompt; for each kind that it has any of, they stand in for the agent's.
        timers: of the runtime, for the time limit.
        pool: where plain functions run.
        log: called with a text and details where a hook failed.
        seconds: the time of one hook.
        over: says whether the execution that they run in is over; without it whoever says so is believed.
    """

    __slots__ = ("_by_kind", "_log", "_over", "_pool", "_seconds", "_timers")

    def __init__(
        self,
        agent_hooks: Iterable[HookLike],
        prompt_hooks: Iterable[HookLike] = (),
        *,
        timers: TimerService,
        pool: WorkerPool,
        log: Callable[[str, dict[str, object]], object],
        seconds: float = HOOK_SECONDS_MAX,
        over: Callable[[], bool] = lambda: True,
    ) -> None:
        self._by_kind = _sorted(agent_hooks) | _sorted(prompt_hooks)
        self._timers = timers
        self._pool = pool
        self._log = log
        self._seconds = seconds
        self._over = over

    def has(self, kind: str) -> bool:
        """Say whether a hook of this kind would be called here and now."""
        return kind in self._by_kind and not in_hook.get()

    async def run(self, kind: str, state: object, *args: object, refusing: bool = False) -> object:
        """Call the hooks of a kind, one after another.

        Args:
            kind: of the table.
            state: the `ThreadState` that they get.
            args: what the kind takes.
            refusing: the message comes from `inject_message`: a failure of `before_create_message` is raised.

        Returns:
            What the kind changes, as the last hook left it; None for a kind that changes nothing.

        Raises:
            HookBlocked: by `prefilter_llm_history`, whose error asked to end the run.
            ExecutionCancelled, ExecutionFenced: the execution is over; not logged.
        """
        row = HOOKS[kind]
        given = list(args)
        place = row.place
        if self.has(kind):
            for hook in self._by_kind[kind]:
                result = await self._call(hook, state, [_lent(value) for value in given])
                failure = result if type(result) is _Failure else _judge(row, hook, result, given)
                if failure is not None:
                    self._failed(row, hook, failure, refusing=refusing)
                elif place is not None:
                    given[place] = _plain(result)
                    if given[place] is None:
                        return None  # dropped: there is nothing left for the next one to judge
        return None if place is None else given[place]

    async def _call(self, hook: HookLike, state: object, args: list[object]) -> object:
        """Return what a hook returned, or its failure; never waits longer than its time."""
        loop = asyncio.get_running_loop()
        context = copy_context()
        context.run(in_hook.set, True)
        task = loop.create_task(_outcome(hook, self._pool, state, args), name=f"hook {hook.id}", context=context)
        late: asyncio.Future[None] = loop.create_future()
        timer = self._timers.after(self._seconds, lambda: _wake(loop, late))
        try:
            await asyncio.wait((task, late), return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            _let_go(task)
            raise
        finally:
            timer.cancel()
        if not task.done():
            _let_go(task)
            said = f"hook {hook.id!r} did not end within {self._seconds:g} seconds"
            late_error = HookTimedOut(said, hook=hook.id, kind=hook.hook, seconds=self._seconds)
            return _Failure("timed_out", late_error)
        # One that cancelled its own task and returned has no result.
        outcome = _Failure("raised", asyncio.CancelledError()) if task.cancelled() else task.result()
        error = outcome.error if type(outcome) is _Failure else None
        # A hook may have kept the state of another execution: the end of that one is an error like any other.
        # By `type`: `isinstance` asks the error itself, which may be as hostile as its hook.
        if error is not None and issubclass(type(error), ExecutionCancelled | ExecutionFenced) and self._over():
            raise error
        return outcome

    def _failed(self, row: HookKind, hook: HookLike, failure: _Failure, *, refusing: bool) -> None:
        error = failure.error
        # Only its type: the text may hold a secret, which the thread's own log takes out.
        logger.warning("Hook %s (%s) failed: %s", hook.id, hook.hook, kind_of(error))
        details: dict[str, object] = {
            "hook": hook.id,
            "kind": hook.hook,
            "how": failure.how,
            "error_type": kind_of(error),
            "error": _at_most(text_of(error)),
        }
        self._log(f"hook {hook.id} failed", details)
        if row.on_failure == "refuse" and refusing and failure.how != "garbage":
            raise error
        if row.on_failure == "block" and failure.how == "raised" and _asks_to_block(error):
            said = text_of(error) or "A hook stopped the run."
            raise HookBlocked(said, hook=hook.id, kind=hook.hook) from error


def _sorted(hooks: Iterable[HookLike]) -> dict[str, list[HookLike]]:
    by_kind: dict[str, list[HookLike]] = {}
    for hook in hooks:
        by_kind.setdefault(hook.hook, []).append(hook)
    return by_kind


def _judge(row: HookKind, hook: HookLike, result: object, given: Sequence[object]) -> _Failure | None:
    if row.place is None:
        return None  # whatever an observer returns, nobody looks at it
    try:
        accepted = row.accepts(result, given[row.place])
    except BaseException as error:  # noqa: BLE001 - a hostile object may raise when it is looked at
        return _Failure("garbage", error)
    if accepted:
        return None
    said = f"hook {hook.id!r} must return its {row.changes}, not {shorten(result)}"
    return _Failure("garbage", TypeError(said))


def _plain(result: object) -> object:
    """Return what a hook gave as what was asked for: of a tuple a list, of a text of its own kind its characters."""
    if isinstance(result, tuple):
        return list(result)
    return str.__str__(result) if isinstance(result, str) else result


def _lent(value: object) -> object:
    """Return what a hook may change in place without changing the original."""
    if isinstance(value, list):
        return [_lent(one) for one in value]
    if isinstance(value, dict):
        return copy.deepcopy(value)
    if isinstance(value, Message) and (value.metadata or value.attachments):
        return value.model_copy(deep=True)
    return value


async def _outcome(hook: HookLike, pool: WorkerPool, state: object, args: list[object]) -> object:
    # Every escape is caught in the hook's own task: a SystemExit would end the loop that all bodies share.
    try:
        if inspect.iscoroutinefunction(hook.function):
            return await hook.function(state, *args)
        returned = await _run_on_worker(hook, pool, state, args)
        return await returned if inspect.isawaitable(returned) else returned
    except BaseException as error:  # noqa: BLE001
        return _Failure("raised", error)


async def _run_on_worker(hook: HookLike, pool: WorkerPool, state: object, args: list[object]) -> object:
    """Run a plain function on the pool, under the guard of its execution, so that an interrupt ends its waits."""
    reply: Reply[object] = Reply()
    context = copy_context()
    guard = getattr(current_body.get(), "guard", None)
    if guard is not None:
        context.run(current_wait.set, guard())

    def call() -> None:
        reply.set(hook.function(state, *args))

    def ended(error: BaseException | None) -> None:
        if error is not None:
            reply.fail(error)

    job = pool.submit(f"hook {hook.id}", call, ended, context)
    try:
        return await reply
    except asyncio.CancelledError:
        # Its time is over, or nobody waits any more: another worker takes the place of the one that it holds.
        if not job.cancel():
            job.abandon()
        raise


def _let_go(task: asyncio.Task[object]) -> None:
    """Cancel a hook that nobody waits for any more, however late it ends; the loop's set must not lose it before."""
    _late.add(task)
    task.add_done_callback(_late.discard)
    task.cancel()


_late: set[asyncio.Task[object]] = set()


def _wake(loop: asyncio.AbstractEventLoop, late: asyncio.Future[None]) -> None:
    def set_result() -> None:
        if not late.done():
            late.set_result(None)

    try:
        loop.call_soon_threadsafe(set_result)
    except RuntimeError:
        if not loop.is_closed():  # a closed loop has nobody left who waits
            raise


def _at_most(said: str) -> str:
    return said if len(said) <= LOGGED_CHARACTERS_MAX else said[: LOGGED_CHARACTERS_MAX - 1] + "…"


def _asks_to_block(error: BaseException) -> bool:
    try:
        return getattr(error, "block", False) is True
    except BaseException:  # noqa: BLE001 - a property of a broken error
        return False
