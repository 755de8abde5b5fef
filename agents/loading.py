"""Owns `load_agents`: a folder of modules, one definition a file, as agents of one namespace. Runs none of them."""

from __future__ import annotations

import importlib
import itertools
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from ..protocol.errors import InvalidDefinitions, kind_of, shorten, text_of
from .agent import FunctionAgent
from .agent_definition import Agent
from .definitions import Definitions
from .handler import Handler
from .hook import Hook
from .model_definition import Model
from .prompt import Prompt
from .tool import Tool

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable

    from .environment import Environment

__all__ = ["load_agents"]

AnyAgent: TypeAlias = "Agent | FunctionAgent[Awaitable[None] | None]"
FOLDERS: Final[Mapping[str, tuple[type, ...]]] = {
    "agents": (Agent, FunctionAgent),
    "prompts": (Prompt,),
    "tools": (Tool,),
    "models": (Model,),
    "hooks": (Hook,),
    "handlers": (Handler,),
}
_loads = itertools.count(1)


class _File(NamedTuple):
    """One module of the folder: where it is, relative to it, and what it is to define."""

    folder: str
    path: Path

    @property
    def shown(self) -> str:
        return f"{self.folder}/{self.path.name}"


def load_agents(folder: str | os.PathLike[str], *, environment: Environment | None = None) -> list[AnyAgent]:
    """Load a project: `agents/`, `prompts/`, `tools/`, `models/`, `hooks/` and `handlers/`, one definition a file.

    A file is a module with one definition as an attribute, whatever that is called; a definition without a name gets the
    file's, once all are imported. Files and attributes that begin with `_` are left alone. The modules are imported under
    a name of their own, so that two projects, or one loaded twice, share nothing; among each other they import
    relatively: `from ..tools.refund import refund`. Blocks while it reads and runs them.

    Args:
        folder: the project.
        environment: where values of variables come from, for `Definitions`.

    Returns:
        The agents, sorted by file, for `Runtime(agents=...)`; all look names up in one namespace.

    Raises:
        InvalidDefinitions: naming each file that cannot be imported or does not hold one definition. What the
            definitions say of each other is checked when a runtime opens.
    """
    loaded = _Loading(Path(folder).absolute())
    found = loaded.definitions()
    if loaded.problems:
        raise InvalidDefinitions(
            f"{len(loaded.problems)} problems in {folder}: {'; '.join(loaded.problems)}", problems=loaded.problems
        )
    # The namespace is held by its agents.
    Definitions(
        agents=[one for one in found["agents"] if isinstance(one, Agent)],
        prompts=[one for one in found["prompts"] if isinstance(one, Prompt)],
        models=[one for one in found["models"] if isinstance(one, Model)],
        tools=[one for one in found["tools"] if isinstance(one, Tool)],
        hooks=[one for one in found["hooks"] if isinstance(one, Hook)],
        handlers=[one for one in found["handlers"] if isinstance(one, Handler)],
        environment=environment,
        files=loaded.files,
    )
    return [one for one in found["agents"] if isinstance(one, Agent | FunctionAgent)]


class _Loading:
    """One folder being loaded."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._package = f"treadle_project_{next(_loads)}"
        self.problems: list[str] = []
        self.files: dict[int, str] = {}

    def definitions(self) -> dict[str, list[object]]:
        """Import every file and return what they define, by folder; fills `problems` and `files`."""
        found: dict[str, list[object]] = {folder: [] for folder in FOLDERS}
        if not (self._root / "agents").is_dir():
            self.problems.append("agents/: there is no such folder")
            return found
        importlib.invalidate_caches()  # the files may have been written a moment ago
        self._make_package()
        modules = [(file, held) for file in self._list() if (held := self._import(file)) is not None]
        for file, one in self._claimed(modules):
            found[file.folder].append(one)
        if not self.problems and not found["agents"]:
            self.problems.append("agents/: no file defines an agent")
        if self.problems:
            self._forget()
        return found

    def _make_package(self) -> None:
        package = types.ModuleType(self._package, f"The project in {self._root.name}.")
        package.__path__ = [str(self._root)]
        sys.modules[self._package] = package

    def _forget(self) -> None:
        for name in [one for one in sys.modules if one == self._package or one.startswith(f"{self._package}.")]:
            del sys.modules[name]

    def _list(self) -> Iterator[_File]:
        for folder in FOLDERS:
            inside = self._root / folder
            paths = sorted(inside.iterdir()) if inside.is_dir() else []
            yield from (_File(folder, one) for one in paths if one.suffix == ".py" and not one.name.startswith("_"))

    def _import(self, file: _File) -> dict[int, object] | None:
        """Run a module; return what it may define, by `id()`, or None and a problem."""
        if "." in file.path.stem:
            self.problems.append(f"{file.shown}: the name of a module has no dot")
            return None
        try:
            module = importlib.import_module(f"{self._package}.{file.folder}.{file.path.stem}")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the file is code and may raise anything
            self.problems.append(f"{file.shown}: {_where(error, file.path)}{kind_of(error)}: {_text(error)}")
            return None
        kinds = FOLDERS[file.folder]
        return {id(one): one for name, one in vars(module).items() if isinstance(one, kinds) and name[0] != "_"}

    def _claimed(self, modules: list[tuple[_File, dict[int, object]]]) -> list[tuple[_File, object]]:
        """Find out which file each definition is of: one that imports another's holds both, and that other but its own."""
        claims: dict[int, _File] = {}
        claimed: dict[_File, object] = {}
        news = True
        while news:
            news = False
            for file, held in modules:
                own = [key for key in held if key not in claims]
                if len(own) == 1 and file not in claimed:
                    claims[own[0]], claimed[file], news = file, held[own[0]], True
        for file, held in modules:
            if file not in claimed:
                what = FOLDERS[file.folder][0].__name__
                self.problems.append(f"{file.shown}: defines {f'{len(held)} of' if held else 'no'} {what}, not one")
        for file, one in claimed.items():
            self._name(file, one)
        return [(file, claimed[file]) for file, _ in modules if file in claimed]

    def _name(self, file: _File, definition: object) -> None:
        self.files[id(definition)] = file.shown
        if isinstance(definition, Agent | Prompt | Model) and not definition.name:
            # In place: other modules may hold this very object.
            object.__setattr__(definition, "name", file.path.stem)


def _where(error: BaseException, path: Path) -> str:
    """Say in which line of the file it was, where its traceback passes there."""
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == str(path) else None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return "" if line is None else f"line {line}: "


def _text(error: BaseException) -> str:
    lines = [line.strip() for line in text_of(error).splitlines() if line.strip()]
    # Pydantic's first line only counts; the others say what.
    return shorten(" ".join(lines), 400)[1:-1]
