"""Holds treadle.hosting.turns: however many clients send much at once, everybody else is served in between."""

from __future__ import annotations

import asyncio
import itertools

from treadle.hosting.turns import SHARE_S, Turns, turns


def test_turns_of_a_crowd_leave_each_round_of_the_loop_to_others() -> None:
    now = 0.0
    taken: list[int] = []
    rounds: list[int] = []

    async def main() -> None:
        crowd = Turns(lambda: now)

        def take(number: int) -> None:
            nonlocal now
            now += 0.75 * SHARE_S
            taken.append(number)

        for number in range(300):
            crowd.wait(lambda number=number: take(number))  # type: ignore[misc]
        while len(taken) < 300:
            await asyncio.sleep(0)
            rounds.append(len(taken))

    asyncio.run(main())

    assert taken == list(range(300))
    assert max(after - before for before, after in itertools.pairwise([0, *rounds])) == 2


def test_who_has_more_to_take_waits_behind_those_who_came_meanwhile() -> None:
    taken: list[str] = []

    async def main() -> None:
        crowd = Turns(lambda: 0.0)

        def much() -> None:
            taken.append("much")
            if taken.count("much") < 3:
                crowd.wait(much)

        crowd.wait(much)
        crowd.wait(lambda: taken.append("little"))
        await asyncio.sleep(0)

    asyncio.run(main())

    assert taken == ["much", "little", "much", "much"]


def test_a_turn_that_fails_ends_nobody_elses() -> None:
    taken: list[str] = []
    failures: list[object] = []

    def fails() -> None:
        raise ZeroDivisionError

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))
        crowd = turns()
        assert crowd is turns()
        crowd.wait(fails)
        crowd.wait(lambda: taken.append("next"))
        while not taken:
            await asyncio.sleep(0)

    asyncio.run(main())

    assert [type(failure) for failure in failures] == [ZeroDivisionError]
