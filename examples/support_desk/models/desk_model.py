"""Owns which model answers: the provider's that TREADLE_MODEL names, else the embedded one, which needs no network."""

from __future__ import annotations

from treadle.agents import Model
from treadle.agents.models import FunctionModel, model_from_env

from ..clerk import clerk

model = Model(model=model_from_env() or FunctionModel(clerk, name="clerk"))
