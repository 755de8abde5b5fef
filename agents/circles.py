"""Owns the search for circles among names that name each other. Knows nothing of what they name."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

__all__ = ["circles"]


def circles(graph: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return a shortest circle for each knot of names, its first name again at the end; none for none.

    Args:
        graph: each name with those that it names; names that are no key lead nowhere.
    """
    found: list[list[str]] = []
    seen: set[str] = set()
    backwards: dict[str, list[str]] = {}
    for name, following in graph.items():
        for one in following:
            backwards.setdefault(one, []).append(name)
    for name in graph:
        circle = None if name in seen else _circle_through(name, graph)
        if circle is not None:
            # Whatever lies in the same knot would show the same fault once more.
            seen |= _reached(name, graph) & _reached(name, backwards)
            found.append(circle)
    return found


def _reached(start: str, graph: Mapping[str, Sequence[str]]) -> set[str]:
    reached: set[str] = set()
    left = [start]
    while left:
        for following in graph.get(left.pop(), ()):
            if following not in reached:
                reached.add(following)
                left.append(following)
    return reached


def _circle_through(start: str, graph: Mapping[str, Sequence[str]]) -> list[str] | None:
    came_from: dict[str, str] = {}
    left = deque([start])
    while left:
        name = left.popleft()
        for following in graph.get(name, ()):
            if following == start:
                path = [start, name]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return path[::-1] if name != start else [start, start]
            if following not in came_from:
                came_from[following] = name
                left.append(following)
    return None
