"""Owns what the parts of a `ThreadState` share: the way to its thread, and what surrounds it. Has no verb of its own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..protocol.errors import InvalidInput, TreadleError, shorten
from .log_entries import write_entry
from .scene import Scene, is_declared

if TYPE_CHECKING:
    from ..actors.execution import Execution
    from ..actors.reply import Reply
    from .at_rest import ThreadAccess
    from .redaction import Redactor

__all__ = ["StateParts"]

logger = logging.getLogger("treadle")


class StateParts:
    """What each part of a state builds on: access to the thread, and the execution that runs, None at rest."""

    __slots__ = ("_access", "_execution", "_scene")

    _access: ThreadAccess
    _execution: Execution | None
    _scene: Scene | None

    @property
    def scene(self) -> Scene:
        """Agent, prompt, hooks and variables as they hold here; for the step loop, made when first looked at."""
        scene = self._scene
        if scene is None:
            scene = self._scene = Scene(self._access, self._execution, self._note)
        return scene

    def _declared(self) -> Scene | None:
        """Return the scene of a declared agent, or of a thread at rest; None for a plain callable, which has no hooks."""
        execution = self._execution
        if execution is not None and self._scene is None and not is_declared(execution):
            return None
        return self.scene

    def _redactor(self) -> Redactor | None:
        """Return what takes secrets out; None where there is nothing to take out.

        A plain callable has met a secret only where it asked for one: its messages cost it nothing before.
        """
        scene = self._declared()
        if scene is None or (scene.agent is None and self._execution is not None and not scene.env.is_loaded):
            return None
        return scene.env.redactor or None

    def _check_names(self, **names: object) -> None:
        """Check what code has chosen to be found by: it is stored and shown as it is, so it must hold no secret.

        Raises:
            InvalidInput: `secret_in_name`.
        """
        redactor = self._redactor()
        for what, name in names.items() if redactor is not None else ():
            if redactor is not None and redactor.finds(name):
                raise InvalidInput(
                    f"{what} holds a secret; what something is found by is stored and shown as it is",
                    code="secret_in_name",
                    field=what,
                    value=shorten(redactor.text(str(name))),
                )

    def _running_id(self) -> str | None:
        return None if self._execution is None else self._execution.id

    def _note(self, message: str, data: dict[str, object]) -> None:
        """Write an error to the thread's log for the runtime, which has nobody to wait for it."""

        def written(reply: Reply[str]) -> None:
            error = reply.error()
            if error is not None:
                logger.warning("The log of %s took no entry: %s", self._access.thread_id, type(error).__name__)

        try:
            redactor = self.scene.env.redactor
        except TreadleError as error:
            logger.warning("The log of %s took no entry: %s", self._access.thread_id, type(error).__name__)
            return
        write_entry(self._access, redactor, self._running_id(), "error", message, data).add_done_callback(written)
