"""Owns which models a prompt asks, in which order: its own, then the fallbacks of that one. Asks none."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from .models.calling import ResolvedModel

if TYPE_CHECKING:
    from .definitions import Definitions
    from .model_definition import Model
    from .models.seam import LanguageModel
    from .prompt import Prompt

__all__ = ["models_of"]


def models_of(definitions: Definitions, prompt: Prompt) -> list[ResolvedModel]:
    """Return the models to ask for a prompt, the preferred one first.

    Raises:
        DefinitionNotFound: one that is named is not there.
        ExtraMissing: a provider is named, and its packages are not installed.
    """
    return [_resolved(model) for model in definitions.model_chain(prompt.model)]


def _resolved(model: Model) -> ResolvedModel:
    answering = _provider(model.model) if isinstance(model.model, str) else model.model
    return ResolvedModel(
        answering, model.name or answering.name, model.attempts, model.first_delay, model.settings, model.vision
    )


@lru_cache(maxsize=64)
def _provider(model_id: str) -> LanguageModel:
    """Return the adapter of a provider's model: one for all threads, since it holds the connections."""
    from .models.provider import ProviderModel

    return ProviderModel(model_id)
