"""Owns a thread's variables as one state sees them: what is stored, what is set, what must be taken out of texts.

A variable that `set_env` sets is durable in the thread's own values under `treadle:env`, where no frame shows it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ..actors.reads import read_created
from ..actors.reply import Reply
from ..protocol.values import check_value
from .environment import Environment, EnvValue, Layers, VariableNotFound, entry_env
from .redaction import Redactor
from .secrets import SecretUnreadable, unreadable

if TYPE_CHECKING:
    from ..protocol.values import JsonObject, Value
    from .at_rest import ThreadAccess
    from .environment import EnvType
    from .scene import Scene

__all__ = ["ENV_KEY", "ThreadEnv"]

logger = logging.getLogger("treadle")

ENV_KEY: Final = "treadle:env"
_EMPTY: Final = Environment()


class ThreadEnv:
    """The variables of one thread, from all their sources; any worker may call, each read blocks for one.

    Args:
        access: to the thread.
        scene: which agent and prompt hold.
    """

    __slots__ = ("_access", "_creation", "_lock", "_pairs", "_redactor", "_scene", "_setting", "_user")

    def __init__(self, access: ThreadAccess, scene: Scene) -> None:
        self._access = access
        self._scene = scene
        self._creation: Mapping[str, str] | None = None
        self._user: Mapping[str, EnvValue] | None = None
        self._setting: dict[str, EnvValue] = {}  # on their way into the store
        self._redactor: Redactor | None = None
        self._pairs: list[tuple[str, str]] = []
        self._lock = threading.RLock()  # a reply may be set, and its callback run, inside the very call

    @property
    def environment(self) -> Environment:
        """The variables that belong to no thread."""
        definitions = self._scene.definitions
        return (None if definitions is None else definitions.environment) or _EMPTY

    def find(self, name: str) -> EnvValue:
        """Return a variable from the first source that has it.

        Raises:
            VariableNotFound: none has.
            SecretUnreadable: it was stored under another key.
        """
        layers, broken = self._layers()
        if name in broken:
            raise unreadable(name)
        found = layers.find(name)
        if found is None:
            raise VariableNotFound(f"Environment variable not found: {name}", name=name)
        if found.type == "secret":
            self._refresh(layers)
        return found

    def type_of(self, name: str) -> EnvType:
        """Return a variable's type; `secret` for one that nobody has."""
        layers, _broken = self._layers()
        found = layers.find(name)
        return "secret" if found is None else found.type

    def set(self, name: str, value: str, kind: EnvType | None) -> Reply[None]:
        """Store a variable of the thread. Raises: LimitExceeded, and what reading the store raises."""
        with self._lock:
            stored, _broken = self._stored()
            known = stored.get(name)
            set_to = EnvValue(value, kind or ("secret" if known is None else known.type))
            self._setting[name] = set_to
            try:
                reply = self._access.set_internal(ENV_KEY, check_value(self._encoded()))
            except BaseException:
                self._landed(name, set_to)
                raise
        if self._redactor is not None or set_to.type == "secret":
            self._refresh(self._layers()[0])
        reply.add_done_callback(lambda _reply: self._landed(name, set_to))
        return reply

    def _landed(self, name: str, value: EnvValue) -> None:
        with self._lock:
            if self._setting.get(name) is value:
                del self._setting[name]

    @property
    def redactor(self) -> Redactor:
        """What takes the secrets out that this state may have met; made at the first look, kept up with what is set."""
        if self._redactor is None:
            try:
                self._of_user()
            except BaseException as error:  # noqa: BLE001 - what could not be had could not be met either
                logger.warning(
                    "The variables of user %s could not be had: %s", self._access.user_id, type(error).__name__
                )
                self._user = {}
                self._refresh(self._layers()[0])
                self._user = None  # asked again by whoever needs one of them
            else:
                self._refresh(self._layers()[0])
        assert self._redactor is not None
        return self._redactor

    @property
    def is_loaded(self) -> bool:
        """Whether a secret may have been met here."""
        return self._redactor is not None

    def _layers(self) -> tuple[Layers, frozenset[str]]:
        agent, prompt = self._scene.agent, self._scene.prompt
        thread, broken = self._stored()
        # A tool may look at another thread, too: what its entry sets is not that thread's.
        entry = {} if self._scene.flow is None else entry_env.get()
        layers = Layers(
            thread,
            {} if agent is None else agent.env,
            {**({} if prompt is None else prompt.env), **entry},
            self._of_user(),
            self.environment.instance,
        )
        return layers, broken

    def _of_user(self) -> Mapping[str, EnvValue]:
        if self._user is None:
            self._user = self.environment.of_user(self._access.user_id)
        return self._user

    def _stored(self) -> tuple[dict[str, EnvValue], frozenset[str]]:
        """Return what the thread was created with and what was set since, and the names of what does not open."""
        if self._creation is None:
            self._creation = read_created(self._access.services, self._access.entry).env or {}
        declared = self._declared_types()
        values = {name: EnvValue(value, declared.get(name, "secret")) for name, value in self._creation.items()}
        broken: set[str] = set()
        for name, record in self._records().items():
            try:
                values[name] = EnvValue(self._opened(name, record), record["type"])
            except SecretUnreadable:
                values.pop(name, None)
                broken.add(name)
        with self._lock:
            values.update(self._setting)
            broken.difference_update(self._setting)
        return values, frozenset(broken)

    def _declared_types(self) -> dict[str, EnvType]:
        """Return the types that the current prompt states; they hold for what a thread is created with, which has none."""
        prompt = self._scene.prompt
        stated = () if prompt is None else prompt.variables
        return {one.name: one.type for one in stated if "type" in one.model_fields_set}

    def _records(self) -> dict[str, JsonObject]:
        records = self._access.get_internal(ENV_KEY).result()
        return records if isinstance(records, dict) else {}  # type: ignore[return-value]

    def _opened(self, name: str, record: JsonObject) -> str:
        if "sealed" not in record:
            return str(record["value"])
        sealer = self.environment.sealer
        if sealer is None:
            raise unreadable(name)
        return sealer.open(name, record["sealed"])

    def _encoded(self) -> dict[str, Value]:
        sealer = self.environment.sealer
        records: dict[str, Value] = dict(self._records())
        for name, one in self._setting.items():
            sealed = sealer is not None and one.type == "secret"
            held = {"sealed": sealer.seal(name, one.value)} if sealer is not None and sealed else {"value": one.value}
            records[name] = {"type": one.type, **held}
        return records

    def _refresh(self, layers: Layers) -> None:
        # Those that were met stay met: a value that was set anew may still stand in what a tool has read before.
        shown = {(name, one.value) for name, one in layers.thread.items() if one.type == "text"}
        met = dict.fromkeys([*self._pairs, *layers.secrets(), *self._declared_secrets()])
        pairs = [pair for pair in met if pair not in shown]
        if self._redactor is None or pairs != self._pairs:
            self._pairs, self._redactor = pairs, Redactor(pairs)

    def _declared_secrets(self) -> list[tuple[str, str]]:
        """Return the variables of every prompt in reach: a sub-prompt's stand in the thread's history too."""
        definitions = self._scene.definitions
        if definitions is None:
            return []
        from .prompt import PromptTool

        pairs: list[tuple[str, str]] = []
        for prompt in map(definitions.prompt, definitions.prompt_names()):
            pairs += prompt.env.items()
            for entry in prompt.tools:
                pairs += entry.env.items() if isinstance(entry, PromptTool) else ()
        return pairs
