from __future__ import annotations

from pathlib import PurePosixPath as PurePath
from typing import Any

import pytest

from treadle.agents import EnvPart, IncludePart, Model, Prompt, TextPart, Variable
from treadle.agents.models import FunctionModel
from treadle.agents.rendering import PromptVariableMissing, Values, render_prompt

MODEL = Model(name="m", model=FunctionModel(lambda _request: "ok"))


def prompt(text: Any, name: str = "p", **options: Any) -> Prompt:
    return Prompt(name=name, prompt=text, model=MODEL, **options)


def render(
    given: Prompt,
    arguments: dict[str, object] | None = None,
    context: dict[str, object] | None = None,
    env: dict[str, str] | None = None,
    others: tuple[Prompt, ...] = (),
) -> str:
    values = Values(arguments or {}, context or {}, (env or {}).get)
    return render_prompt(given, values, {one.name: one for one in others}.__getitem__)


def test_arguments_win_over_context_and_both_over_the_environment() -> None:
    """Contract E.3 variables: a key in `arguments` wins over the same key in `context`."""
    given = prompt("{{a}} {{ b }} {{c}}", variables=[Variable(name=name) for name in "abc"])
    env = dict.fromkeys("abc", "env")
    assert render(given, {"a": "argument"}, {"a": "context", "b": "context"}, env) == "argument context env"


def test_what_is_no_text_is_written_as_json() -> None:
    assert render(prompt("{{order}}"), {"order": {"id": 7, "über": [1, None]}}) == '{"id": 7, "über": [1, null]}'


def test_a_name_that_nobody_knows_stays_as_it_is_written() -> None:
    assert render(prompt("use {{ mustache }} and {{}} and {{ 1 }}"), env={"mustache": "no"}) == (
        "use {{ mustache }} and {{}} and {{ 1 }}"
    )


def test_a_value_is_not_rendered_again() -> None:
    assert render(prompt("{{a}}"), {"a": "{{b}}", "b": "no"}) == "{{b}}"


def test_a_declared_variable_that_nothing_has_is_empty_and_a_required_one_an_error() -> None:
    assert render(prompt("[{{a}}]", variables=[Variable(name="a")])) == "[]"
    with pytest.raises(PromptVariableMissing) as caught:
        render(prompt("{{a}}", variables=[Variable(name="a", required=True)]))
    assert caught.value.details == {"prompt": "p", "variable": "a"}


def test_parts_are_joined_with_includes_and_variables_in_their_places() -> None:
    """Contract E.3 parts; E.3 variables: parts of text, include and env; arguments reach included prompts."""
    inner = prompt([TextPart(text="<{{who}}"), EnvPart(name="CITY")], name="inner")
    outer = prompt([TextPart(text="Hi {{who}} "), IncludePart(prompt="inner"), TextPart(text=">")], name="outer")
    assert render(outer, {"who": "Ann"}, env={"CITY": " of Bern"}, others=(inner,)) == "Hi Ann <Ann of Bern>"


def test_a_part_that_is_a_variable_must_be_there() -> None:
    with pytest.raises(PromptVariableMissing, match="'CITY'"):
        render(prompt([EnvPart(name="CITY")]))


def test_an_object_of_the_scratch_space_is_written_as_its_text() -> None:
    circle: list[object] = []
    circle.append(circle)
    assert render(prompt("{{a}} {{b}}"), context={"a": PurePath("x/y"), "b": circle}) == "x/y [[...]]"
