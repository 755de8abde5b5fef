"""Owns how these tests call models: on a loop of their own, on a fake clock that moves only where nothing else can."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from treadle.actors.fake_clock import FakeClock
from treadle.agents.models import ModelMessage, ModelRequest
from treadle.agents.models.calling import ResolvedModel, call

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from treadle.agents.models import Delta, LanguageModel, ModelError, ModelResponse

HELLO = ModelRequest((ModelMessage("user", "hello"),))


def chain(*models: LanguageModel, attempts: int = 2) -> list[ResolvedModel]:
    return [ResolvedModel(model, f"m{rank}", attempts) for rank, model in enumerate(models)]


class Asking:
    """One call of models and all that it was seen to do, in order, in `log`."""

    def __init__(self, *, first_chunk_timeout: float = 120.0, stall_timeout: float = 45.0) -> None:
        self.clock = FakeClock()
        self.log: list[object] = []
        self.deltas: list[Delta] = []
        self.failures: list[ModelError] = []
        self.refuse: BaseException | None = None
        self.limits = (first_chunk_timeout, stall_timeout)
        self.task: asyncio.Task[ModelResponse] | None = None
        self.slept = asyncio.Event()  # set while the call waits between two attempts

    def begin(self, what: str) -> None:
        if self.refuse is not None:
            raise self.refuse
        self.log.append(what)

    def sleep(self, seconds: float) -> Coroutine[object, object, None]:
        self.log.append(seconds)
        return self._sleep(seconds)

    async def _sleep(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        self.clock.after(seconds, lambda: loop.call_soon_threadsafe(over.set_result, None))
        self.slept.set()
        await over
        self.slept.clear()

    def on_delta(self, delta: Delta) -> None:
        self.deltas.append(delta)
        self.log.append(delta)

    def on_restart(self) -> None:
        self.log.append("restart")

    def ask(
        self, models: list[ResolvedModel], request: ModelRequest = HELLO
    ) -> Coroutine[object, object, ModelResponse]:
        return call(
            models, request, begin=self.begin, sleep=self.sleep, clock=self.clock, on_delta=self.on_delta,
            on_restart=self.on_restart, on_failure=self.failures.append, first_chunk_timeout=self.limits[0],
            stall_timeout=self.limits[1],
        )  # fmt: skip

    def run(self, models: list[ResolvedModel], request: ModelRequest = HELLO) -> ModelResponse:
        """Call to the end; whenever all wait for time alone, it moves on to the next timer."""
        return asyncio.run(self.until_done(self.ask(models, request)))

    async def until_done(self, asked: Coroutine[object, object, ModelResponse]) -> ModelResponse:
        self.task = task = asyncio.ensure_future(asked)
        while not task.done():
            await turns()
            if not task.done():
                due = self.clock.next_due()
                assert due is not None, "nothing is left that time could bring about"
                self.clock.advance(due)
        return task.result()


async def turns(count: int = 20) -> None:
    """Let everything on this loop that can go on go on."""
    for _ in range(count):
        await asyncio.sleep(0)


def error_of(asked: Callable[[], object]) -> ModelError:
    """Return the error of a call that no model answers."""
    from treadle.agents.models import ModelError

    try:
        asked()
    except ModelError as error:
        return error
    raise AssertionError("a model answered")
