"""Tests agents/circles.py: circles are found, one for each knot, and none where there is none."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from treadle.agents.circles import circles

NAMES = st.sampled_from("abcdefgh")
GRAPHS = st.dictionaries(NAMES, st.lists(NAMES, max_size=4), max_size=8)


def remains_after_taking_leaves(graph: dict[str, list[str]]) -> set[str]:
    """Return the names from which one can go on for ever: what is left when names that lead nowhere are taken away."""
    left = dict(graph)
    while True:
        ends = [name for name, following in left.items() if not any(one in left for one in following)]
        if not ends:
            return set(left)
        for name in ends:
            del left[name]


def test_a_name_that_names_itself_is_a_circle() -> None:
    assert circles({"a": ["a"]}) == [["a", "a"]]


def test_a_chain_and_a_diamond_are_none() -> None:
    assert circles({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": ["unknown"]}) == []


def test_two_circles_in_one_knot_are_shown_once_and_apart_twice() -> None:
    assert circles({"a": ["b"], "b": ["a", "c"], "c": ["b"]}) == [["a", "b", "a"]]
    assert circles({"a": ["b"], "b": ["a"], "c": ["c"]}) == [["a", "b", "a"], ["c", "c"]]


def test_a_long_chain_overflows_no_stack() -> None:
    chain = {str(n): [str(n + 1)] for n in range(3_000)}

    assert circles({"2999": ["0"], **{key: chain[key] for key in list(chain)[:2_999]}})[0][-1] == "2999"


@given(GRAPHS)
def test_each_circle_is_one_and_there_is_one_exactly_where_one_can_go_round(graph: dict[str, list[str]]) -> None:
    found = circles(graph)

    for circle in found:
        assert circle[0] == circle[-1]
        assert all(following in graph[name] for name, following in itertools.pairwise(circle))
        assert len(set(circle)) == len(circle) - 1
    assert bool(found) == bool(remains_after_taking_leaves(graph))


@given(GRAPHS)
def test_no_name_is_in_two_circles(graph: dict[str, list[str]]) -> None:
    named = [name for circle in circles(graph) for name in circle[1:]]

    assert len(named) == len(set(named))
