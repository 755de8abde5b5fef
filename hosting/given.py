"""Owns the judging of what a program gives to the makers of this package, before its first use fails. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from ..protocol.errors import InvalidInput, bad_option

__all__ = ["check_callable", "check_hosts", "check_is", "wrong"]

T = TypeVar("T")


def wrong(name: str, form: str, value: object) -> InvalidInput:
    """Return the error of an argument that is not of the form that it has to have; see `bad_option`."""
    return bad_option(f"{name} is {form}", value)


def check_is(name: str, value: object, kind: type[T], form: str) -> T:
    """Return an argument that is of a kind. Raises: InvalidInput: `invalid_option`; it is of another, or the class itself."""
    if not isinstance(value, kind):
        raise wrong(name, form, value)
    return value


def check_callable(name: str, value: object, form: str) -> None:
    """Check that an argument can be called. Raises: InvalidInput: `invalid_option`."""
    if not callable(value):
        raise wrong(name, form, value)


def check_hosts(hosts: object) -> list[str] | None:
    """Return names of hosts in lower case, None for the default. Raises: InvalidInput: `invalid_option`; text is no list."""
    if hosts is None:
        return None
    form = 'a list of names, ["desk.example"]'
    if not isinstance(hosts, Iterable) or isinstance(hosts, str | bytes):
        raise wrong("allowed_hosts", form, hosts)
    names = list(hosts)
    if not all(isinstance(name, str) and name.strip() for name in names):
        raise wrong("allowed_hosts", form, hosts)
    return [name.lower() for name in names]
