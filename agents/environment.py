"""Owns variables: their values and types, where they come from and which source wins. Reads and stores nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from ..protocol.errors import CallerError, InvalidInput, shorten
from ..protocol.variables import is_variable_name, is_variable_value
from .secrets import Sealer

__all__ = [
    "EnvType",
    "EnvValue",
    "Environment",
    "Layers",
    "VariableNotFound",
    "check_variable",
    "entry_env",
    "values_of",
]

EnvType: TypeAlias = Literal["text", "secret"]
Given: TypeAlias = "Mapping[str, str | EnvValue]"

ENV_TYPES: Final = ("text", "secret")
_NOTHING: Final[Mapping[str, EnvValue]] = MappingProxyType({})

entry_env: ContextVar[Mapping[str, str]] = ContextVar("treadle_entry_env", default=MappingProxyType({}))
"""What the running tool's entry in its prompt sets (`PromptTool.env`); it comes before the prompt's own."""


class VariableNotFound(CallerError):
    """No source has this variable; `details` has its `name`."""

    code = "variable_not_found"


class EnvValue(NamedTuple):
    """A variable's value; `text` may be shown, `secret` is taken out of whatever leaves the runtime."""

    value: str
    type: EnvType = "secret"

    def __repr__(self) -> str:
        # A secret must not reach a log by way of a traceback.
        return f"EnvValue({self.value!r}, 'text')" if self.type == "text" else "EnvValue('…', 'secret')"


class Environment:
    """The variables that belong to no thread: those of users and of this runtime.

    Args:
        instance: the runtime's own: service configuration. A bare string is a secret.
        user: variables by user id, or a quick function of one, called on the worker that asks, at most once for each
            execution. What it raises is the error of the call that needed it.
        key: at least 16 bytes: with it the secrets that `set_env` stores are encrypted.

    Attributes:
        instance: the runtime's own variables.
        sealer: what encrypts, None without a key.

    Raises:
        InvalidInput: `invalid_variable`, or `invalid_key`.
    """

    __slots__ = ("_user", "instance", "sealer")

    def __init__(
        self,
        instance: Given | None = None,
        user: Callable[[str], Given] | Mapping[str, Given] | None = None,
        key: bytes | str | None = None,
    ) -> None:
        self.instance = values_of(instance or {})
        self._user = user
        if isinstance(user, Mapping):
            self._user = {user_id: values_of(given) for user_id, given in user.items()}
        elif user is not None and not callable(user):
            raise InvalidInput(
                f"user is a mapping by user id or a function of one, not {shorten(user)}",
                code="invalid_variable",
                value=shorten(user),
            )
        self.sealer = None if key is None else Sealer(key)

    def of_user(self, user_id: str | None) -> Mapping[str, EnvValue]:
        """Return a user's variables; none for a thread without one. Blocks as long as the given function does."""
        if user_id is None or self._user is None:
            return _NOTHING
        if isinstance(self._user, Mapping):
            return values_of(self._user.get(user_id, {}))
        return values_of(self._user(user_id) or {})

    def __repr__(self) -> str:
        return f"<Environment of {len(self.instance)} variables>"


class Layers(NamedTuple):
    """The sources of a thread's variables, the one that wins first (contract I.20); what definitions hold is secret."""

    thread: Mapping[str, EnvValue] = _NOTHING
    agent: Mapping[str, str] = MappingProxyType({})
    prompt: Mapping[str, str] = MappingProxyType({})
    user: Mapping[str, EnvValue] = _NOTHING
    instance: Mapping[str, EnvValue] = _NOTHING

    def find(self, name: str) -> EnvValue | None:
        """Return a variable from the first source that has it."""
        if name in self.thread:
            return self.thread[name]
        for layer in (self.agent, self.prompt):
            if name in layer:
                return EnvValue(layer[name])
        return self.user.get(name) or self.instance.get(name)

    def secrets(self) -> Iterator[tuple[str, str]]:
        """Yield every secret of every source, those that another source hides included: each may still leak."""
        for layer in (self.thread, self.user, self.instance):
            yield from ((name, one.value) for name, one in layer.items() if one.type == "secret")
        for plain in (self.agent, self.prompt):
            yield from plain.items()


def check_variable(name: object, value: object, kind: object = None) -> None:
    """Check what a variable is set to.

    Raises:
        InvalidInput: `invalid_variable`: no process could be given such a name or value, or the type is none.
    """
    if not is_variable_name(name):
        raise _refuse("a variable's name is not empty and holds neither '=' nor NUL", name, name)
    if not is_variable_value(value):
        # The value is not shown: it may be a secret.
        raise _refuse(f"variable {shorten(name, 40)} is a string without NUL", type(value).__name__, name)
    if kind is not None and kind not in ENV_TYPES:
        raise _refuse("a variable's type is 'text' or 'secret'", kind, name)


def values_of(given: object) -> dict[str, EnvValue]:
    """Return checked variables; a bare string is a secret.

    Raises:
        InvalidInput: `invalid_variable`.
    """
    if not isinstance(given, Mapping):
        raise _refuse("variables are a dict of names to strings", type(given).__name__, None)
    values: dict[str, EnvValue] = {}
    for name, one in given.items():
        value = one if isinstance(one, EnvValue) else EnvValue(one)
        check_variable(name, value.value, value.type)
        values[name] = value
    return values


def _refuse(form: str, met: object, name: object) -> InvalidInput:
    shown = shorten(met)
    return InvalidInput(f"{form}, not {shown}", code="invalid_variable", name=shorten(name, 40), value=shown)
