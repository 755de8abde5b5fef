"""How often pydantic looks at nested arguments: counted from the schema, and held against a bound before it looks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter
from typing_extensions import TypeAliasType

from treadle.agents import ThreadState, tool
from treadle.agents.branching import LINEAR, Branching, branching_of
from treadle.agents.required_schema import check_against
from treadle.agents.tool import ToolArgumentsInvalid


class And(BaseModel):
    both: Expression
    default: Expression  # a name that schemas have a use for, too


class Or(BaseModel):
    one: Expression


class Leaf(BaseModel):
    value: int


Expression = And | Or | Leaf


class Told(BaseModel):
    kind: Literal["told"]
    below: Discriminated


class Apart(BaseModel):
    kind: Literal["apart"]
    below: Discriminated


Discriminated = Annotated[Told | Apart, Field(discriminator="kind")]


class Tree(BaseModel):
    value: int | str = 0
    below: list[Tree] = []
    root: Tree | None = None


@dataclass
class Left:
    next: list[Left | Right]


@dataclass
class Right:
    next: list[Left | Right]


class Metadata(BaseModel):
    metadata: Metadata | Config | None = None


class Config(BaseModel):
    config: Metadata | Config | None = None


for model in (And, Or, Told, Apart, Tree, Metadata, Config):
    model.model_rebuild()

Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | int | None")
Lists = TypeAliasType("Lists", "list[Lists] | tuple[Lists, ...] | int")


@pytest.mark.parametrize(
    ("hint", "branching"),
    [
        (int | str, LINEAR),
        (dict[str, list[int] | dict[str, int]], LINEAR),
        (Tree, LINEAR),
        (Discriminated, LINEAR),
        (Json, LINEAR),
        (Expression, Branching(2, 1)),
        (And, Branching(2, 1)),
        (Left, Branching(2, 1)),
        (Metadata, Branching(2, 1)),
        (Lists, Branching(1, 2)),
    ],
    ids=str,
)
def test_only_a_union_that_holds_itself_in_two_choices_multiplies(hint: Any, branching: Branching) -> None:
    assert branching_of(TypeAdapter(hint).core_schema) == branching


def nested(depth: int, member: str) -> dict[str, Any]:
    data: dict[str, Any] = {"value": 1}
    for _ in range(depth):
        data = {member: data}
    return data


def test_arguments_whose_check_would_hold_the_loop_are_refused_before_it() -> None:
    """Each level doubles it: 60 levels would take until after the sun."""

    @tool
    async def evaluate(state: ThreadState, expression: Expression) -> int:
        return 0

    assert isinstance(evaluate.validate({"expression": nested(10, "one")})["expression"], Or)
    with pytest.raises(ToolArgumentsInvalid, match="too deep"):
        evaluate.validate({"expression": nested(60, "one")})
    with pytest.raises(ToolArgumentsInvalid, match="too deep"):
        check_against(Or, nested(60, "one"))
    assert check_against(Or, nested(10, "one")) == nested(10, "one")


def test_width_is_no_depth_and_what_is_no_json_is_said_by_whoever_reads_it() -> None:
    branching = Branching(2, 1)

    assert not branching.is_too_deep(json.dumps({"all": [nested(3, "one")] * 2_000}))
    assert not branching.is_too_deep("{")
    assert not branching.is_too_deep('{"a":' * 100_000)
    assert not LINEAR.is_too_deep(json.dumps(nested(60, "one")))
