"""Owns `@agent`, which makes a callable of one `ThreadState` something that a runtime can run. Runs no loop of steps."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeVar, cast, overload

from ..actors.failing import ExecutionFailed
from ..actors.fence import ExecutionFenced
from ..actors.passes import describe_error
from ..protocol.errors import CallerError, InvalidInput, shorten
from ..protocol.ids import check_id
from ..protocol.limits import ERROR_TYPE_MAX, SECONDS_MAX
from .thread_state import ThreadState

if TYPE_CHECKING:
    from ..actors.execution import Execution

__all__ = ["FunctionAgent", "InvalidReturn", "agent"]

OnLost = Literal["settle", "resume"]
R = TypeVar("R", bound="Awaitable[None] | None")
R_co = TypeVar("R_co", bound="Awaitable[None] | None", covariant=True)

ON_LOST: Final = ("settle", "resume")


class InvalidReturn(CallerError):
    """An agent's function returned something; what it has to say it injects. `details` has `agent` and `value`.

    The execution fails with this type's name: nothing that the function did before is taken back.
    """

    code = "invalid_return"


class FunctionAgent(Generic[R_co]):
    """A callable of one `ThreadState` as an agent; made by `agent`. Calling it calls the function, for its own tests.

    Attributes:
        function: what was decorated.
        name: what threads are created under.
        runs_on: `loop` for a coroutine function, `worker` for a plain one.
        timeout: seconds an execution may take, None for any.
        steerable: whether its executions take steers.
        on_lost: `settle` or `resume`: whether a lost execution is followed by one on the same history.
    """

    def __init__(
        self, function: Callable[[ThreadState], R_co], *, name: str | None, timeout: float | None, steerable: bool, on_lost: OnLost
    ) -> None:  # fmt: skip
        inner = _innermost(function)
        _check_callable(function, inner)
        # Not its __dict__: a callable object may have a `name` or a `timeout` of its own.
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.name = _check_name(name, inner)
        self.runs_on: Literal["loop", "worker"] = "loop" if _any_of(inspect.iscoroutinefunction, inner) else "worker"
        self.timeout = _check_timeout(timeout)
        if type(steerable) is not bool:
            raise _refuse("steerable", "a bool", steerable)
        if on_lost not in ON_LOST:
            raise _refuse("on_lost", "'settle' or 'resume'", on_lost)
        self.steerable = steerable
        self.on_lost: OnLost = on_lost

    def __call__(self, state: ThreadState) -> R_co:
        """Call the function itself, outside any execution."""
        return self.function(state)

    def run(self, execution: Execution, /) -> Awaitable[None] | None:
        """Run one pass; the runtime's to call, on the loop or on a worker as `runs_on` says.

        Raises:
            InvalidReturn: the function returned something; out of the awaitable for a coroutine function.
        """
        state = ThreadState.of(execution)
        if self.runs_on == "loop":
            return self._follow(state)
        try:
            returned: object = self.function(state)
        except BaseException as error:
            _raise_without_secrets(state, error)
            raise
        if returned is not None:
            raise self._invalid(returned)
        return None

    async def _follow(self, state: ThreadState) -> None:
        try:
            returned = await cast("Awaitable[object]", self.function(state))
        except BaseException as error:
            _raise_without_secrets(state, error)
            raise
        if returned is not None:
            raise self._invalid(returned)

    def _invalid(self, value: object) -> InvalidReturn:
        shown = shorten(value)
        hint = ""
        if inspect.iscoroutine(value):
            hint = "; a plain function that returns a coroutine is no coroutine function: declare it with async def"
            if inspect.getcoroutinestate(value) == inspect.CORO_CREATED:
                value.close()  # else Python warns, far from here, that it was never awaited
        elif inspect.isgenerator(value) or inspect.isasyncgen(value):
            hint = "; nothing runs a generator"
        return InvalidReturn(f"agent {self.name!r} must return None, not {shown}{hint}", agent=self.name, value=shown)

    def __repr__(self) -> str:
        return f"<agent {self.name!r} on a {self.runs_on}>"


@overload
def agent(
    function: Callable[[ThreadState], R], /, *, name: str | None = None, timeout: float | None = None,
    steerable: bool = True, on_lost: OnLost = "settle",
) -> FunctionAgent[R]: ...  # fmt: skip
@overload
def agent(
    *, name: str | None = None, timeout: float | None = None, steerable: bool = True, on_lost: OnLost = "settle"
) -> Callable[[Callable[[ThreadState], R]], FunctionAgent[R]]: ...
def agent(
    function: Callable[[ThreadState], R] | None = None, /, *, name: str | None = None, timeout: float | None = None,
    steerable: bool = True, on_lost: OnLost = "settle",
) -> FunctionAgent[R] | Callable[[Callable[[ThreadState], R]], FunctionAgent[R]]:  # fmt: skip
    """Make a callable of one `ThreadState` an agent: `@agent`, `@agent(timeout=60)`, or `agent(partial(f, x=1), name="f1")`.

    It is called once per pass: for the input that started the execution, and again for what arrived meanwhile.

    Args:
        function: a coroutine function, which runs on the event loop, or a plain one, which runs on a worker of a pool;
            bound methods, partials and callable objects too.
        name: what threads are created under, 1 to 128 printable ASCII characters; by default the function's own.
        timeout: seconds that an execution may take; beyond them it is aborted, and fails with `ExecutionTimeout`.
        steerable: whether its executions take steers.
        on_lost: `resume` starts an execution on the same history after one that was lost with its process or actor.

    Returns:
        The agent, or what makes one of the function that it is given.

    Raises:
        InvalidInput: `invalid_agent` for what is no such callable or no such option, `invalid_id` for the name.
    """

    def decorate(decorated: Callable[[ThreadState], R]) -> FunctionAgent[R]:
        plain = decorated.function if isinstance(decorated, FunctionAgent) else decorated
        return FunctionAgent(plain, name=name, timeout=timeout, steerable=steerable, on_lost=on_lost)

    return decorate if function is None else decorate(function)


def _raise_without_secrets(state: ThreadState, error: BaseException) -> None:
    """Raise, in place of an error whose text would show a secret at the end of its execution, one that does not."""
    # By `type`: `isinstance` asks the error itself, which may be as hostile as its body.
    if issubclass(type(error), asyncio.CancelledError | ExecutionFenced):
        return  # an interruption, whatever it says, ends no execution as failed
    scene = state._scene  # noqa: SLF001 - without one it has asked for no variable
    if scene is None or not scene.env.is_loaded:
        return
    redactor = scene.env.redactor
    kind, message = describe_error(error)
    if redactor.text(message) != message or redactor.finds(kind):
        failed = error if type(error) is ExecutionFailed else None
        raise ExecutionFailed(
            redactor.text(message),
            error_type=redactor.text(kind if failed is None else failed.error_type)[:ERROR_TYPE_MAX],
            reason="step_error" if failed is None else failed.reason,
        ) from None


def _refuse(what: str, form: str, value: object) -> InvalidInput:
    return InvalidInput(f"{what} must be {form}, not {shorten(value)}", code="invalid_agent", value=shorten(value))


def _innermost(function: object) -> object:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _any_of(test: Callable[[object], bool], inner: object) -> bool:
    """Say whether the function, or the `__call__` of a callable object, passes a test."""
    return test(inner) or test(inner.__call__)  # type: ignore[operator]


def _check_callable(function: object, inner: object) -> None:
    if not callable(function) or isinstance(inner, type):
        raise _refuse("an agent", "a function or a callable object", function)
    if _any_of(inspect.isgeneratorfunction, inner) or _any_of(inspect.isasyncgenfunction, inner):
        raise _refuse("an agent", "no generator function, since calling one runs nothing", function)
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return  # some callables written in C have none; the first call will tell
    try:
        signature.bind(None)
    except TypeError:
        raise _refuse(
            "an agent", f"callable with one ThreadState and nothing else (it takes {signature})", function
        ) from None


def _check_name(name: str | None, inner: object) -> str:
    if name is None:
        name = getattr(inner, "__name__", None) or type(inner).__name__
        if name == "<lambda>":
            raise _refuse("the name of a lambda", "given as name=", inner)
    return check_id("the agent's name", name)


def _check_timeout(timeout: float | None) -> float | None:
    if timeout is None:
        return None
    # `type` on purpose: True is no number of seconds.
    if type(timeout) not in {int, float} or not 0 < timeout <= SECONDS_MAX:
        raise _refuse("timeout", f"a number of seconds above 0, at most {SECONDS_MAX}", timeout)
    return float(timeout)
