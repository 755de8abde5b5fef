"""Tests agents/environment.py: where a variable comes from, and what is none."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.agents.environment import Environment, EnvValue, Layers, check_variable, values_of
from treadle.protocol.errors import InvalidInput


def test_the_first_source_that_has_a_variable_gives_it() -> None:
    """Contract D.6 env order: thread, agent, prompt, user, instance."""
    sources: dict[str, Any] = {
        "thread": {"X": EnvValue("of the thread")},
        "agent": {"X": "of the agent"},
        "prompt": {"X": "of the prompt"},
        "user": {"X": EnvValue("of the user", "text")},
        "instance": {"X": EnvValue("of the runtime", "text")},
    }

    for name, shown in zip(list(sources), ("thread", "agent", "prompt", "user", "runtime"), strict=True):
        found = Layers(**sources).find("X")
        assert found is not None
        assert found.value == f"of the {shown}"
        del sources[name]
    assert Layers().find("X") is None


def test_an_empty_value_is_a_value() -> None:
    layers = Layers(thread={"X": EnvValue("")}, instance={"X": EnvValue("far")})

    assert layers.find("X") == EnvValue("")


def test_what_definitions_hold_is_secret_and_others_carry_their_own_type() -> None:
    """Contract D.6 env_type: secret by default and in definitions."""
    layers = Layers(
        thread={"T": EnvValue("0000")},
        agent={"A": "1111"},
        prompt={"P": "2222"},
        user={"U": EnvValue("3333", "text")},
        instance={"I": EnvValue("4444", "text")},
    )

    types = {name: found.type for name in "TAPUI" if (found := layers.find(name)) is not None}
    assert types == {"T": "secret", "A": "secret", "P": "secret", "U": "text", "I": "text"}


def test_a_secret_that_another_source_hides_is_a_secret_all_the_same() -> None:
    layers = Layers(
        thread={"X": EnvValue("shown", "text")},
        agent={"X": "agent's"},
        prompt={"Y": "prompt's"},
        user={"X": EnvValue("user's")},
        instance={"X": EnvValue("runtime's")},
    )

    assert set(layers.secrets()) == {("X", "agent's"), ("Y", "prompt's"), ("X", "user's"), ("X", "runtime's")}


def test_the_variables_of_users_come_from_a_mapping_or_a_function() -> None:
    given = {"u1": {"A": "one", "B": EnvValue("two", "text")}}

    for environment in (Environment(user=given), Environment(user=lambda user_id: given.get(user_id, {}))):
        assert environment.of_user("u1") == {"A": EnvValue("one", "secret"), "B": EnvValue("two", "text")}
        assert environment.of_user("u2") == {}
        assert environment.of_user(None) == {}
    assert Environment().of_user("u1") == {}


@pytest.mark.parametrize(
    "given",
    [
        {"": "x"},
        {"A=B": "x"},
        {"A\0": "x"},
        {7: "x"},
        {"A": 7},
        {"A": None},
        {"A": "x\0"},
        {"A": "\ud800"},
        {"\ud800": "x"},
        {"A": EnvValue("x", "hidden")},  # type: ignore[arg-type]
        ["A"],
        "A=x",
    ],
)
def test_what_no_process_could_be_given_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        values_of(given)
    assert refused.value.code == "invalid_variable"


def test_a_refusal_does_not_show_the_value() -> None:
    with pytest.raises(InvalidInput) as refused:
        check_variable("A", "sesame\0")
    assert "sesame" not in f"{refused.value} {refused.value.details}"


def test_users_that_are_neither_mapping_nor_function_are_refused() -> None:
    with pytest.raises(InvalidInput):
        Environment(user=7)  # type: ignore[arg-type]


def test_a_secret_is_not_shown_where_values_are_printed() -> None:
    assert "sesame" not in repr([EnvValue("sesame"), Environment({"A": "sesame"}), Layers({"A": EnvValue("sesame")})])
    assert "open" in repr(EnvValue("open", "text"))
