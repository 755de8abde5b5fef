"""The models of a prompt are asked in order, each with its own patience; a provider has one adapter."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.agents.definitions import DefinitionNotFound, Definitions
from treadle.agents.model_chain import models_of
from treadle.agents.model_definition import Model
from treadle.agents.prompt import Prompt
from treadle.agents.testing.scripted_model import ScriptedModel


def test_a_model_comes_before_its_fallbacks_and_these_bring_none_of_their_own() -> None:
    """Contract E.5 fallbacks: by name or themselves, each with its attempts, delay, settings and eyes."""
    answering = [ScriptedModel(name=f"m{rank}") for rank in range(3)]
    last = Model(name="last", model=answering[2], vision=False)
    second = Model(name="second", model=answering[1], attempts=5, first_delay=0.5, fallbacks=[last])
    first = Model(name="first", model=answering[0], settings={"temperature": 0.1}, fallbacks=["second"])
    definitions = Definitions(models=[first, second])

    chain = models_of(definitions, Prompt(name="p", prompt="x", model="first"))

    assert [(one.name, one.model, one.attempts, one.first_delay, one.vision) for one in chain] == [
        ("first", answering[0], 2, 1.0, True), ("second", answering[1], 5, 0.5, True),
    ]  # fmt: skip
    assert dict(chain[0].settings) == {"temperature": 0.1}


def test_a_model_without_a_name_is_called_by_what_answers() -> None:
    (one,) = models_of(Definitions(), Prompt(name="p", prompt="x", model=Model(model=ScriptedModel(name="bare"))))

    assert one.name == "bare"


def test_a_model_that_is_not_there_is_an_error() -> None:
    with pytest.raises(DefinitionNotFound):
        models_of(Definitions(), Prompt(name="p", prompt="x", model="none"))


def test_a_provider_is_reached_by_one_adapter_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract E.5 attempts: the adapter holds the connections, so it is made once for each model of a provider."""
    made: list[str] = []

    class Adapter(ScriptedModel):
        def __init__(self, model_id: str, **_: Any) -> None:
            super().__init__(name=model_id)
            made.append(model_id)

    monkeypatch.setattr("treadle.agents.models.provider.ProviderModel", Adapter)
    prompt = Prompt(name="p", prompt="x", model=Model(name="m", model="acme:once"))

    assert models_of(Definitions(), prompt)[0].model is models_of(Definitions(), prompt)[0].model
    assert made == ["acme:once"]
