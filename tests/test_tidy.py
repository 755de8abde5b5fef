"""Holds the repository to its own rules: layers, purity, sizes, names, leftovers. Reads source, runs none of it."""

from __future__ import annotations

import ast
import re
import statistics
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
LAYERS = ["protocol", "storage", "actors", "agents", "hosting"]  # imports go from right to left only
THIRD_PARTY = {
    "protocol": {"pydantic"},
    "storage": {"pydantic", "lmdb", "msgpack"},
    "actors": {"pydantic", "pykka"},
    "agents": {"pydantic", "pydantic_core"},
    "hosting": {
        *(
            "anyio",
            "fastapi",
            "h11",
            "httpx",
            "opentelemetry",
            "prometheus_client",
            "pydantic",
            "rich",
            "starlette",
            "typer",
        ),
        *("uvicorn", "websockets"),
    },
}
# Imported only once somebody asks for what needs them: see the extras.
WITH_EXTRA = {
    "agents/models/provider.py": "pydantic_ai",
    "agents/models/provider_request.py": "pydantic_ai",
    "agents/models/provider_reply.py": "pydantic_ai",
    "agents/secrets.py": "cryptography",
}
FOR_TESTS_OF_USERS = "actors/testing"  # a file or a folder; the one place of the product that may import pytest
IMPURE = {
    "asyncio",
    "concurrent",
    "contextvars",
    "gc",
    "io",
    "logging",
    "multiprocessing",
    "os",
    "pathlib",
    "queue",
} | {
    *(
        "random",
        "sched",
        "secrets",
        "select",
        "selectors",
        "shutil",
        "signal",
        "socket",
        "sqlite3",
        "ssl",
        "subprocess",
    ),
    *("sys", "tempfile", "threading", "time", "uuid", "weakref"),
}
IMPURE_CALLS = {"open", "print", "input", "now", "utcnow", "today", "fromtimestamp"}
SAYS_NOTHING = {"util", "utils", "helper", "helpers", "common", "base", "manager", "misc", "core", "shared"}
# Written with brackets so that this file does not name what it forbids.
LEFT_FOR_LATER = re.compile(r"\b(TO[D]O|FIX[M]E|XX[X]|HAC[K]|NotImplemente[d]Error)\b")
SLEEPS = re.compile(r"\b(time|asyncio|anyio|trio)\.slee[p]\((?!0\))")
SKIPS = re.compile(r"@pytest\.mark\.(ski[p]|xfai[l])\b")
OF_ONE_MACHINE = re.compile(
    r"/wor[k]/|/roo[t]/|/hom[e]/\w|/tm[p]/(venv|plan)|[.]librar[y]/|registry[.]npmj[s]|pypi[.]or[g]|files[.]pythonhoste[d]|deb[.]debia[n]"
)
# Source files whose tests stand under another name. A file with its own test may not be listed.
TESTED_ELSEWHERE: dict[str, str] = {
    "actors/live_state.py": "tests/actors/test_handle.py",  # fields alone
    "actors/services.py": "tests/actors/test_runtime.py",  # fields alone, and ids, in test_creating.py
    "actors/thread_mail.py": "tests/actors/test_recovery.py",  # rows alone
    "agents/hooks.py": "tests/agents/test_hook_runner.py",  # every row of the table, called
    "agents/log_entries.py": "tests/agents/test_thread_logs.py",
    "agents/state_parts.py": "tests/agents/test_scene.py",  # which part pays for what
    "agents/thread_env.py": "tests/agents/test_thread_variables.py",
    "storage/codec.py": "tests/fuzz/test_codec_fuzz.py",
    "storage/encoding.py": "tests/storage/test_thread_check.py",  # every row against what the journal says
    "storage/pages.py": "tests/actors/test_reads.py",  # all pages of all kinds, on both stores
}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def files(*folders: str) -> list[Path]:
    return sorted(p for folder in folders for p in (ROOT / folder).rglob("*.py") if "__pycache__" not in p.parts)


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def texts() -> Iterator[tuple[str, int, str]]:
    """Yield every line of every text file of the repository: name, number, line."""
    for path in sorted(ROOT.rglob("*")):
        inside = path.relative_to(ROOT).parts
        made = any(p.startswith(".") and p != ".ci" for p in inside) or {
            "build",
            "dist",
            "data",
            "src",
            "__pycache__",
        } & {*inside}
        if made or not path.is_file() or path.stat().st_size > 1 << 20:
            continue
        for number, line in enumerate(path.read_text(errors="replace").split("\n"), 1):
            yield name(path), number, line


def imports(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield what a file imports: line, full dotted module, whether the import is relative."""
    package = ("treadle", *path.relative_to(ROOT).parent.parts)
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, False) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.lineno, node.module or "", False
        elif isinstance(node, ast.ImportFrom):
            start = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            # `from .. import storage` names its module on the right.
            ends = [alias.name for alias in node.names] if start == ["treadle", ""] else [""]
            yield from ((node.lineno, ".".join(part for part in [*start, end] if part), True) for end in ends)


def height(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Yield every function with its lines, decorators and docstring left out."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            documented = ast.get_docstring(node, clean=False) is not None
            said = height(node.body[0]) if documented else 0
            yield f"{name(path)}:{node.lineno} {node.name}", height(node) - said


def test_imports_go_down_the_layers_only_and_are_relative() -> None:
    wrong = []
    for path in files(*LAYERS):
        own = LAYERS.index(path.relative_to(ROOT).parts[0])
        for line, module, relative in imports(path):
            parts = module.split(".")
            if parts[0] in LAYERS or (parts[0] == "treadle" and not relative):
                wrong.append(f"{name(path)}:{line} {module}: inside the five packages imports are relative")
            elif parts[0] == "treadle" and LAYERS.index(parts[1]) > own:
                wrong.append(f"{name(path)}:{line} {LAYERS[own]} must not import {parts[1]}")

    assert not wrong


def test_nothing_outside_the_packages_imports_them_by_their_folder() -> None:
    wrong = [
        f"{name(path)}:{line} {module}"
        for path in files("tests", "benchmarks", "examples")
        for line, module, relative in imports(path)
        if not relative and module.split(".")[0] in LAYERS
    ]

    assert not wrong, "import treadle.<package>: the folder's own name makes a second copy of every module"


def test_the_protocol_is_pure() -> None:
    wrong = [
        f"{name(path)}:{line} {module}"
        for path in files("protocol")
        for line, module, _ in imports(path)
        if module.split(".")[0] in IMPURE
    ]
    wrong += [
        f"{name(path)}:{node.lineno} {called}()"
        for path in files("protocol")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        and (called := getattr(node.func, "attr", getattr(node.func, "id", ""))) in IMPURE_CALLS
    ]

    assert not wrong, "protocol/ has no clock, no ids, no IO and no workers: they arrive inside the trigger"


def test_each_layer_uses_only_its_own_third_party_packages() -> None:
    wrong = []
    for path in files(*LAYERS):
        allowed = THIRD_PARTY[path.relative_to(ROOT).parts[0]] | (
            {"pytest"} if name(path).startswith(FOR_TESTS_OF_USERS) else set()
        )
        allowed |= {WITH_EXTRA[name(path)]} if name(path) in WITH_EXTRA else set()
        for line, module, relative in imports(path):
            top = module.split(".")[0]
            if not relative and top != "treadle" and top not in sys.stdlib_module_names and top not in allowed:
                wrong.append(f"{name(path)}:{line} {module}")

    assert not wrong


def test_files_are_short() -> None:
    sizes = {name(path): path.read_text().count("\n") for path in files(*LAYERS)}

    assert {path: size for path, size in sizes.items() if size > 400} == {}
    # Package roots only re-export; counting them would flatter the median.
    assert statistics.median(size for path, size in sizes.items() if not path.endswith("__init__.py")) <= 150


def test_functions_are_short() -> None:
    sizes = sorted((size, where) for path in files(*LAYERS) for where, size in functions(path))

    assert [(where, size) for size, where in sizes if size > 70] == []
    assert sizes[int(len(sizes) * 0.9)][0] <= 25, f"the 90th percentile; the longest: {sizes[-20:]}"


def test_every_file_says_what_it_owns_and_its_name_says_something() -> None:
    product = [path for path in files(*LAYERS, "benchmarks", "examples") if path.read_text().strip()]

    assert [name(path) for path in product if not ast.get_docstring(tree(path))] == []
    assert [name(path) for path in files(*LAYERS, "tests", "benchmarks", "examples") if path.stem in SAYS_NOTHING] == []


def test_nothing_is_left_for_later_or_swallowed() -> None:
    later = [
        f"{path}:{number} {line.strip()}"
        for path, number, line in texts()
        if path.endswith(".py") and LEFT_FOR_LATER.search(line)
    ]
    swallowed = [
        f"{name(path)}:{node.lineno}"
        for path in files(*LAYERS, "tests", "benchmarks", "examples")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ExceptHandler) and all(isinstance(s, ast.Pass) for s in node.body)
    ]

    assert (later, swallowed) == ([], [])


def test_no_test_sleeps_or_is_skipped() -> None:
    wrong = [
        f"{path}:{number}"
        for path, number, line in texts()
        if path.startswith("tests/") and (SLEEPS.search(line) or SKIPS.search(line))
    ]

    assert not wrong, "order tests by events and barriers; a test that cannot pass is mended or removed"


def test_nothing_names_one_machine_or_a_registry() -> None:
    assert [f"{path}:{number}" for path, number, line in texts() if OF_ONE_MACHINE.search(line)] == []


def test_any_is_rare() -> None:
    used = {
        name(path): count
        for path in files(*LAYERS)
        if (count := sum(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(tree(path))))
    }
    lines = sum(path.read_text().count("\n") for path in files(*LAYERS))

    # JSON data, LMDB, msgpack, pykka's own signatures and replies of every kind; h11 has 5 in a thousand lines, trio 2.4.
    assert sum(used.values()) <= max(5, lines * 5 / 1000), used


def test_no_alias_of_types_is_text_in_pieces() -> None:
    # Mypy reads such an alias; pyright takes it for unknown, and with it whatever it is the type of.
    pieces = [
        f"{name(path)}:{node.lineno}"
        for path in files(*LAYERS)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.AnnAssign) and "TypeAlias" in ast.unparse(node.annotation)
        if isinstance(node.value, ast.Constant) and node.value.lineno != node.value.end_lineno
    ]

    assert pieces == []


def test_every_source_file_has_its_test() -> None:
    wrong = []
    for path in files(*LAYERS[:4]):
        source = path.relative_to(ROOT)
        if source.name == "__init__.py":
            continue
        own, other = f"tests/{source.parent}/test_{source.stem}.py", TESTED_ELSEWHERE.get(source.as_posix())
        test = ROOT / (other or own)
        if other and (ROOT / own).exists():
            wrong.append(f"{source} has {own} by now: take it off TESTED_ELSEWHERE")
        elif not test.exists():
            wrong.append(f"{source} has no {name(test)}: write it, or say in TESTED_ELSEWHERE which test covers it")
        elif not re.search(rf"\b{source.stem}\b|treadle\.{source.parts[0]}\b", test.read_text()):
            wrong.append(f"{name(test)} does not name {source}")

    assert not wrong, "\n".join(wrong)


def test_the_list_of_tests_elsewhere_names_real_files() -> None:
    assert [path for path in TESTED_ELSEWHERE if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("path", files(*LAYERS), ids=name)
def test_public_names_are_sorted_and_documented(path: Path) -> None:
    public = [
        element.value
        for node in tree(path).body
        if isinstance(node, ast.Assign) and [getattr(t, "id", "") for t in node.targets] == ["__all__"]
        for element in getattr(node.value, "elts", [])
    ]
    defined = {
        node.name: node
        for node in tree(path).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }

    # As ruff sorts it: constants, then classes, then the rest.
    assert public == sorted(public, key=lambda n: (not n.isupper(), not n[0].isupper(), n))
    assert [n for n in public if n in defined and not ast.get_docstring(defined[n])] == []


def test_the_runtime_needs_four_packages() -> None:
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]

    assert sorted(re.split(r"[^\w-]", need)[0] for need in needed) == ["lmdb", "msgpack", "pydantic", "pykka"]
