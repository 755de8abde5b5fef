"""Bad options, pages, cursors and agents, and stores that cannot be used: a documented error, and nothing is changed."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lmdb
import pytest

from tests.scenarios.garbage import Refusals
from tests.scenarios.scene import PATIENCE_S, Scene, contents, ended, quiet
from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.protocol.errors import (
    CursorConflict,
    InvalidInput,
    LimitExceeded,
    NotAStore,
    RuntimeClosed,
    SchemaTooNew,
    StoreInUse,
    ThreadNotFound,
)
from treadle.storage import LmdbStore, MemoryStore
from treadle.storage.schema import MAGIC, SCHEMA, SCHEMA_KEY, SCHEMA_ROW
from treadle.storage.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Reply, Thread


@agent(name="actor")
async def rests(state: ThreadState) -> None:
    pass


def calls_with_an_option(scene: Scene, thread: Thread) -> dict[str, tuple[str, Callable[[Any], Reply[Any]], list[Any]]]:
    """Return calls with the code of their refusal and what is none of their options."""
    numbers = [0, -1, -0.5, math.nan, math.inf, -math.inf, 10**9 + 1, "5", b"5", True, [5], object()]
    limits = [-1, 1_001, 1.5, "5", True, math.nan, [5]]
    words = ["", "nonsense", 5, True, b"x", ["x"], {"x": 1}, object()]
    flags = [1, 0, "yes", None, [], object()]
    return {
        "on_busy": ("invalid_on_busy", lambda given: thread.submit("x", on_busy=given), [*words, None]),
        "timeout": ("invalid_timeout", lambda given: thread.submit("x", timeout=given), numbers),
        "source": ("invalid_source", lambda given: thread.interrupt("e", source=given), [*words, None, "deadline"]),
        "hold": ("invalid_hold", lambda given: thread.interrupt("e", hold=given), flags),
        "reason": ("invalid_reason", lambda given: thread.interrupt("e", reason=given), [5, b"x", ["x"], object()]),
        "reason's text": ("invalid_value", lambda given: thread.interrupt("e", reason=given), ["\ud800"]),
        "limit": ("invalid_page", lambda given: thread.messages(limit=given), [*limits, None]),
        "offset": ("invalid_page", lambda given: thread.messages(offset=given), [-1, 2**64, 1.5, "5", None]),
        "order": ("invalid_page", lambda given: thread.messages(order=given), words),
        "include_silent": ("invalid_page", lambda given: thread.messages(include_silent=given), flags),
        "max_depth": ("invalid_page", lambda given: thread.messages(max_depth=given), [-1, 65, "5", None]),
        "beside, limit": ("invalid_page", lambda given: thread.messages(before="m", limit=given), [*limits, None]),
        "beside, order": ("invalid_page", lambda given: thread.messages(before="m", order=given), words),
        "beside, offset": ("invalid_page", lambda given: thread.messages(after="m", offset=given), [1, -1, "5"]),
        "beside both": ("invalid_page", lambda given: thread.messages(before="m", after=given), ["m"]),
        "executions, limit": ("invalid_page", lambda given: thread.executions(limit=given), [*limits, None]),
        "executions, offset": ("invalid_page", lambda given: thread.executions(offset=given), [-1, "5"]),
        "executions, order": ("invalid_page", lambda given: thread.executions(order=given), words),
        "threads, limit": ("invalid_page", lambda given: scene.runtime.threads(limit=given), [*limits, 0, None]),
        "threads, state": ("invalid_page", lambda given: scene.runtime.threads(state=given), words),
        "threads, order": ("invalid_page", lambda given: scene.runtime.threads(order=given), [*words, None]),
        "threads, after": (
            "invalid_cursor",
            lambda given: scene.runtime.threads(after=given),
            ["", "x", "-1", "1.5", "9" * 30, "\u0661", 5, b"5", ["5"]],
        ),
        "tags": ("invalid_name", lambda given: scene.runtime.create_thread("actor", tags=given), ["t", 5, None]),
        "a tag": (
            "invalid_name",
            lambda given: scene.runtime.create_thread("actor", tags=[given]),
            ["", 5, None, "\0", "\ud800", ["t"]],
        ),
        "env": (
            "invalid_value",
            lambda given: scene.runtime.create_thread("actor", env=given),
            ["x", 5, [], ["x"], {"K": 1}, {"K": None}, {5: "x"}, {"K": "\ud800"}],
        ),
        "arguments": (
            "invalid_value",
            lambda given: scene.runtime.create_thread("actor", arguments=given),
            ["x", 5, [], ["x"], {5: "x"}],
        ),
        "stop after": ("invalid_id", lambda given: thread.wait(given), [None, 5, object()]),
    }


def test_what_is_no_option_is_refused_and_shown(scene: Scene) -> None:
    thread = scene.start(quiet)
    refusals = Refusals(scene)

    for name, (code, call, wrong) in calls_with_an_option(scene, thread).items():
        for given in wrong:
            refusals.invalid(lambda call=call, given=given: call(given), code, (name, given))  # type: ignore[misc]
    refusals.over(lambda: thread.interrupt("e", reason="x" * 1_025), "reason_length", "reason")
    refusals.over(lambda: scene.runtime.create_thread("actor", tags=map(str, range(65))), "tags", "tags")
    refusals.over(lambda: scene.runtime.create_thread("actor", tags=["x" * 129]), "tag_length", "tag")

    refusals.nothing_was_written()


CURSORS = [
    "", "x", "1", "1:", ":1", "1:x", "1:-1", "0:1", "-1:1", "1:1:1", "1 :1", " 1:1", "1:1\n", "1.0:1", "\u0661:\u0661", "1:" + "9" * 30,
    5, b"1:1", ["1:1"], (1, 1), object(),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["events", "stream"])
def test_a_malformed_cursor_and_one_of_elsewhere_are_told_apart(scene: Scene, kind: str) -> None:
    thread = scene.start(quiet)
    ended(thread, thread.submit("x").result(PATIENCE_S))
    before = contents(scene.store)
    head = thread.state().result(PATIENCE_S).cursor

    for given in CURSORS:
        with getattr(thread, kind)(after=given) as feed, pytest.raises(InvalidInput) as malformed:
            next(iter(feed))
        assert malformed.value.code == "invalid_cursor", given
        assert malformed.value.details["value"], given
    for given in (f"{head.generation + 1}:0", f"{head.generation}:{head.sequence + 1}", f"1:{2**63 - 1}"):
        with getattr(thread, kind)(after=given) as feed, pytest.raises(CursorConflict) as elsewhere:
            next(iter(feed))
        assert elsewhere.value.code == "cursor_conflict"
        assert elsewhere.value.details["thread_id"] == thread.id
    with getattr(scene.runtime.thread("never-was"), kind)() as feed, pytest.raises(ThreadNotFound):
        next(iter(feed))
    for given in (" ", 5, ["t"], None):
        with getattr(scene.runtime.thread(given), kind)() as feed, pytest.raises(InvalidInput):  # type: ignore[arg-type]
            next(iter(feed))

    assert contents(scene.store) == before


def test_a_change_number_that_is_none_or_was_never_published_is_refused(scene: Scene) -> None:
    scene.start(quiet)

    for given in ("", "x", "-1", -1, 1.5, True, "1:1", 2**64, "9" * 30, b"1", ["1"]):
        with scene.runtime.events(after=given) as feed, pytest.raises(InvalidInput) as malformed:  # type: ignore[arg-type]
            next(iter(feed))
        assert malformed.value.code == "invalid_cursor", given
    with scene.runtime.events(after=10**6) as feed, pytest.raises(CursorConflict):
        next(iter(feed))


class NoBody:
    name = "actor"
    runs_on = "loop"
    run = None


class NoWhere:
    name = "actor"
    runs_on = "moon"

    def run(self, execution: object) -> None:
        pass


class NoName(NoWhere):
    name = ""
    runs_on = "loop"


@pytest.mark.parametrize("wrong", [None, 5, "actor", object(), NoBody(), NoWhere(), print])
def test_what_is_no_agent_is_refused_before_anything_is_opened(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        Runtime(LmdbStore(tmp_path / "store"), agents=[wrong])

    assert refused.value.code == "invalid_agent"
    assert refused.value.details["value"]
    assert not (tmp_path / "store").exists()


def test_an_agents_name_is_an_id_and_its_own() -> None:
    with pytest.raises(InvalidInput) as blank:
        Runtime(MemoryStore(), agents=[NoName()])  # type: ignore[list-item]
    with pytest.raises(InvalidInput) as twice:
        Runtime(MemoryStore(), agents=[rests, agent(rests.function, name="actor")])

    assert (blank.value.code, twice.value.code) == ("invalid_id", "invalid_agent")
    assert twice.value.details["value"] == "actor"


@pytest.mark.parametrize("wrong", ["data", Path("data"), None, MemoryStore, object()])
def test_what_is_no_store_is_refused_with_a_word_on_what_is(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=r"store is LmdbStore\(path\) or MemoryStore\(\)") as refused:
        Runtime(wrong, agents=[rests])

    assert refused.value.code == "invalid_option"
    assert refused.value.details["value"]


@pytest.mark.parametrize(
    "option", ["interrupt_grace", "drain_timeout", "idle_after", "resident_max", "release_timeout", "workers", "loop"]
)
@pytest.mark.parametrize("wrong", [-1, math.nan, "5", b"5", True, [5], object()])
def test_what_is_no_option_of_a_runtime_is_refused_by_name(option: str, wrong: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        Runtime(MemoryStore(), agents=[rests], **{option: wrong})

    assert refused.value.code == "invalid_option"
    assert option in str(refused.value)
    assert refused.value.details["value"]


def test_a_runtime_needs_a_worker_and_a_loop_of_the_caller_needs_a_caller() -> None:
    with pytest.raises(InvalidInput):
        Runtime(MemoryStore(), agents=[rests], workers=0)
    with pytest.raises(InvalidInput), Runtime(MemoryStore(), agents=[rests], loop="caller"):
        raise AssertionError("opened without a loop")


def test_before_it_is_open_a_runtime_answers_that_it_is_closed() -> None:
    runtime = Runtime(MemoryStore(), agents=[rests])

    for call in (lambda: runtime.create_thread("actor"), runtime.threads, lambda: runtime.delete_thread("t")):
        with pytest.raises(RuntimeClosed):
            call().result(PATIENCE_S)
    with pytest.raises(RuntimeClosed):
        runtime.thread("t")
    assert runtime.ready() == (False, ["runtime_closed"])


def everything_in(folder: Path) -> dict[str, bytes | None]:
    found = sorted(folder.rglob("*")) if folder.is_dir() else [folder]
    # The owner's file and LMDB's table of readers say who looked; they are no part of what is stored.
    return {
        path.name: path.read_bytes() if path.is_file() and path.suffix != ".lock" and path.name != "lock.mdb" else None
        for path in found
    }


def check_refused_and_unchanged(path: Path, error: type[Exception]) -> Exception:
    before = everything_in(path.parent)
    with pytest.raises(error) as refused, Runtime(LmdbStore(path), agents=[rests]):
        raise AssertionError("opened")
    assert everything_in(path.parent) == before
    return refused.value


def test_a_directory_that_is_not_a_store_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letters.txt").write_text("dear")
    (tmp_path / "file").write_text("not a directory")

    for name in ("mine", "file", "file/below"):
        refused = check_refused_and_unchanged(tmp_path / name, NotAStore)
        assert str(tmp_path / "file" if name == "file/below" else tmp_path / name) in str(refused)


HOLD = """
import sys
from treadle.storage import LmdbStore
store = LmdbStore(sys.argv[1])
store.open()
print("open", flush=True)
sys.stdin.readline()
store.close()
"""


@pytest.mark.slow
def test_a_store_held_by_another_process_is_refused_by_name_and_opens_once_it_is_free(tmp_path: Path) -> None:
    path = tmp_path / "store"
    runtime = Runtime(LmdbStore(path), agents=[rests])
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdin is not None
    assert holder.stdout is not None
    holder.stdout.readline()

    with pytest.raises(StoreInUse) as refused:
        runtime.open()

    assert str(holder.pid) in str(refused.value)
    assert refused.value.code == "store_in_use"
    holder.stdin.close()
    holder.wait(PATIENCE_S)
    holder.stdout.close()
    with runtime:
        runtime.create_thread("actor").result(PATIENCE_S)


def test_two_runtimes_on_one_store_are_one_too_many(scene: Scene) -> None:
    thread = scene.start(quiet)
    before = contents(scene.store)

    with pytest.raises(StoreInUse), Runtime(scene.store, agents=[rests]):
        raise AssertionError("opened twice")

    assert contents(scene.store) == before
    ended(thread, thread.submit("still there").result(PATIENCE_S))


def test_a_store_of_a_newer_schema_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with Runtime(LmdbStore(path), agents=[rests]) as runtime:
        runtime.create_thread("actor").result(PATIENCE_S)
    with lmdb.open(str(path), max_dbs=len(Table) + 1) as env, env.begin(write=True) as txn:
        txn.put(SCHEMA_KEY, SCHEMA_ROW.pack(MAGIC, SCHEMA + 1), db=env.open_db(b"meta", txn=txn))

    refused = check_refused_and_unchanged(path, SchemaTooNew)

    assert isinstance(refused, SchemaTooNew)
    assert refused.code == "schema_too_new"


def test_limits_are_named_in_their_errors() -> None:
    error = LimitExceeded("too much", limit="value_bytes", maximum=1, met=2)

    assert error.to_wire() == {
        "code": "limit_exceeded",
        "message": "too much",
        "details": {"limit": "value_bytes", "maximum": 1, "met": 2},
    }
