"""Owns how the desk speaks; other prompts include it."""

from treadle.agents import Prompt

prompt = Prompt(prompt="Be friendly and exact, in two or three sentences.", model="desk_model")
