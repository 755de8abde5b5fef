"""Holds treadle.storage.right_of_way: who passes goes first, and nobody waits for long, or twice."""

from __future__ import annotations

import threading

from treadle.storage.right_of_way import RightOfWay

from .driving import run

GUARD_S = 60.0


def test_who_gives_way_waits_for_the_end_of_the_passage() -> None:
    way, order = RightOfWay(), list[str]()
    assert way.take()

    def give() -> None:
        way.give(0, GUARD_S)
        order.append("the other")

    other = threading.Thread(target=give)
    other.start()
    order.append("who passes")
    way.leave()
    other.join(GUARD_S)

    assert order == ["who passes", "the other"]
    assert not way.taken()


def test_nobody_waits_without_end_or_twice_for_one_passage() -> None:
    way = RightOfWay()
    way.take()

    waited_for = way.give(0, 0.001)

    assert waited_for == 1
    # Without end, if it waited at all.
    assert way.give(waited_for, GUARD_S * 1_000) == waited_for
    way.leave()
    way.take()
    assert way.give(waited_for, 0.001) == 2


def test_of_two_who_would_go_first_neither_waits() -> None:
    way = RightOfWay()

    assert way.take()
    assert not way.take()
    way.leave()
    assert way.take()
    way.leave()


# In a process of its own: newer Pythons warn of a fork beside other workers, as those of a test run are.
FORKS = """
import os
from treadle.storage.right_of_way import RIGHT_OF_WAY

assert RIGHT_OF_WAY.take()
child = os.fork()
if not child:
    os._exit(0 if not RIGHT_OF_WAY.taken() and RIGHT_OF_WAY.take() else 1)
print(os.waitpid(child, 0)[1], RIGHT_OF_WAY.taken())
"""


def test_a_child_forked_during_a_passage_finds_the_way_free() -> None:
    assert run(FORKS).stdout == "0 True\n"
