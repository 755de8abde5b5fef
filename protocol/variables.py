"""Owns what a variable may be called and hold: what a process could be given. Says nothing of where it comes from."""

from __future__ import annotations

from typing import TypeGuard

from .ids import is_unicode

__all__ = ["is_variable_name", "is_variable_value"]


def is_variable_name(name: object) -> TypeGuard[str]:
    """Say whether a process could be given a variable of this name: not empty, without `=` and NUL, valid Unicode."""
    return isinstance(name, str) and bool(name) and "=" not in name and "\0" not in name and is_unicode(name)


def is_variable_value(value: object) -> TypeGuard[str]:
    """Say whether a process could be given this value: text without NUL, valid Unicode."""
    return isinstance(value, str) and "\0" not in value and is_unicode(value)
