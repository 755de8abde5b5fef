"""Owns how a `ThreadState` reads and sets variables (contract D.6). Resolves and stores none itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ..actors.reply import Reply
from .environment import check_variable
from .state_parts import StateParts

if TYPE_CHECKING:
    from .environment import EnvType

__all__ = ["ThreadVariables"]

T = TypeVar("T")


class ThreadVariables(StateParts):
    """The part of a `ThreadState` that reads and sets variables (contract D.6)."""

    __slots__ = ()

    def env(self, name: str) -> Reply[str]:
        """Return a variable: of the thread, the agent, the current prompt, the user or the runtime, the first that has it.

        Returns:
            A reply with its value. Fails with:
            VariableNotFound: none has it.
            SecretUnreadable: it was stored under another key than the runtime's.
        """
        return _answer(lambda: self.scene.env.find(_named(name)).value)

    def env_type(self, name: str) -> Reply[EnvType]:
        """Return `text` for a variable that may be shown, else `secret`: also for one that nobody has."""
        return _answer(lambda: self.scene.env.type_of(_named(name)))

    def instance_env(self, name: str) -> Reply[str | None]:
        """Return a variable of the runtime itself, which no thread and no user can set; None where it has none."""

        def read() -> str | None:
            env = self.scene.env
            found = env.environment.instance.get(_named(name))
            if found is not None and found.type == "secret":
                assert env.redactor is not None  # whatever holds it from here on is redacted
            return None if found is None else found.value

        return _answer(read)

    def set_env(self, name: str, value: str, type: EnvType | None = None) -> Reply[None]:  # noqa: A002 - the contract's name
        """Set a variable of the thread, which then comes before all other sources.

        Args:
            name: not empty, without `=` and NUL.
            value: text without NUL; may be empty.
            type: `text` or `secret`; without it a known variable of the thread keeps its own, and a new one is secret.

        Returns:
            A reply once it is durable. Fails with:
            InvalidInput: `invalid_variable`.
            LimitExceeded: the thread's variables are larger than a value may be.
            ExecutionFenced: the execution no longer owns its thread.
        """
        try:
            check_variable(name, value, type)
            return self.scene.env.set(name, value, type)
        except BaseException as error:  # noqa: BLE001 - as in `_answer`
            return Reply.failed(error)


def _named(name: str) -> str:
    check_variable(name, "")
    return name


def _answer(read: Callable[[], T]) -> Reply[T]:
    # Not only our own errors: a source of a user's variables is anybody's function.
    try:
        return Reply.of(read())
    except BaseException as error:  # noqa: BLE001
        return Reply.failed(error)
