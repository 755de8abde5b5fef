from __future__ import annotations

import asyncio
import pickle

import pytest

from treadle.actors.fence import ExecutionCancelled, ExecutionFenced


@pytest.mark.parametrize("error", [ExecutionCancelled("e-1"), ExecutionFenced("e-1")])
def test_an_agent_that_guards_its_tools_does_not_swallow_its_own_end(error: BaseException) -> None:
    def body() -> None:
        try:
            raise error
        except Exception:
            pytest.fail("swallowed")

    with pytest.raises(type(error)):
        body()


def test_being_cancelled_is_what_asyncio_knows_as_cancelled() -> None:
    async def main() -> bool:
        async def body() -> None:
            raise ExecutionCancelled("e-1")

        task = asyncio.ensure_future(body())
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(main())


def test_they_say_which_execution_and_why() -> None:
    assert str(ExecutionCancelled("e-1", "enough", "parent")) == "execution e-1 was interrupted by parent: enough"
    assert str(ExecutionCancelled("e-1")) == "execution e-1 was interrupted by user"
    assert str(ExecutionFenced("e-1")) == "execution e-1 no longer owns its thread"


def test_they_survive_a_process_boundary() -> None:
    cancelled = pickle.loads(pickle.dumps(ExecutionCancelled("e-1", "enough", "system")))
    fenced = pickle.loads(pickle.dumps(ExecutionFenced("e-2")))

    assert (cancelled.execution_id, cancelled.reason, cancelled.source) == ("e-1", "enough", "system")
    assert fenced.execution_id == "e-2"
