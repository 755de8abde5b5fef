"""Owns the agent of the demo: it answers from the dialogues. Knows nothing of how it is driven."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.demo.dialogues import answer
from treadle.agents import FunctionAgent, ThreadState, agent

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from examples.demo.dialogues import Corpus

__all__ = ["make_talker"]

# It speaks at 20,000 characters a second, at most 10 ms a line: long enough to be steered and interrupted meanwhile.
SECONDS_A_CHARACTER = 50e-6
SECONDS_A_LINE_MAX = 0.01


def make_talker(corpus: Corpus) -> FunctionAgent[Awaitable[None]]:
    """Return an agent that knows this corpus."""

    @agent
    async def talker(state: ThreadState) -> None:
        assert state.execution is not None
        for message in state.execution.new_messages:
            said = answer(corpus, state.thread_id, message.content or "")
            await state.sleep(min(len(said) * SECONDS_A_CHARACTER, SECONDS_A_LINE_MAX))
            await state.inject_message(
                "assistant", said, metadata={"answers": message.id, "execution": state.execution.id}
            )

    return talker
