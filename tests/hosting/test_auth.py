"""Holds treadle.hosting.auth: who a token stands for, and what a principal sees."""

from __future__ import annotations

import ast
import inspect
import textwrap
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from starlette.requests import HTTPConnection

from treadle.actors import Runtime
from treadle.agents import agent
from treadle.hosting import auth as module
from treadle.hosting.auth import Auth, Principal, Unauthenticated, authenticate, is_loopback, visible
from treadle.protocol.errors import InvalidInput, ThreadNotFound
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

ANNA = Principal("user", "anna")
ADMIN = Principal("admin")
AUTH = Auth({"for-anna": ANNA, "for-all": ADMIN})


@agent
def echo(text: str) -> str:
    return text


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    with Runtime(MemoryStore(), agents=[echo]) as runtime:
        yield runtime


def connection(
    *authorization: str, auth: Auth = AUTH, peer: str | None = "127.0.0.1", runtime: object = None
) -> HTTPConnection:
    app = SimpleNamespace(state=SimpleNamespace(treadle=SimpleNamespace(auth=auth, runtime=runtime)))
    headers = [(b"authorization", value.encode("latin-1")) for value in authorization]
    return HTTPConnection({"type": "http", "headers": headers, "client": peer and (peer, 4711), "app": app})


def test_a_token_stands_for_its_principal_in_any_case_of_the_scheme() -> None:
    assert authenticate(connection("Bearer for-anna")) == ANNA
    assert authenticate(connection("bearer  for-all")) == ADMIN


@pytest.mark.parametrize(
    "given",
    [
        (),
        ("",),
        ("Bearer",),
        ("Bearer ",),
        ("Bearer wrong",),
        ("Bearer for-ann",),
        ("Bearer for-anna2",),
        ("Basic for-anna",),
        ("for-anna",),
        ("Bearer for-anna for-all",),
        ("Bearer for-anna", "Bearer for-all"),
        ("Bearer \xff\xfe",),
    ],
)
def test_no_token_a_wrong_one_and_several_are_refused_alike(given: tuple[str, ...]) -> None:
    with pytest.raises(Unauthenticated) as refused:
        authenticate(connection(*given))

    assert refused.value.code == "unauthenticated"
    assert str(refused.value) == "this needs a known token: Authorization: Bearer TOKEN"
    assert refused.value.details == {}


def test_tokens_are_compared_as_digests_all_of_them_and_without_a_way_out() -> None:
    search = ast.parse(textwrap.dedent(inspect.getsource(Auth.find)))
    loops = [node for node in ast.walk(search) if isinstance(node, ast.For)]

    assert len(loops) == 1
    assert not [n for n in ast.walk(loops[0]) if isinstance(n, ast.Break | ast.Return | ast.Continue)]
    assert "hmac.compare_digest" in inspect.getsource(module)
    assert not any(b"for-anna" in known for known, _ in AUTH._known)
    assert "for-" not in repr(AUTH)


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1", None])
def test_without_tokens_this_machine_is_an_admin(peer: str | None) -> None:
    assert authenticate(connection(auth=Auth(), peer=peer)) == ADMIN


@pytest.mark.parametrize("peer", ["192.0.2.1", "::", "0.0.0.0", "2001:db8::1", "::ffff:192.0.2.1", "elsewhere"])
def test_without_tokens_another_machine_is_nobody(peer: str) -> None:
    with pytest.raises(Unauthenticated):
        authenticate(connection(auth=Auth(), peer=peer))


@pytest.mark.parametrize("token", ["", " ", "two words", "a\nb", "ümlaut", "=", 7, None])
def test_what_no_header_carries_is_no_token(token: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        Auth({token: ADMIN})  # type: ignore[dict-item]

    assert refused.value.code == "invalid_option"


@pytest.mark.parametrize("who", [("user", None), ("user", ""), ("user", "a\0b"), ("admin", "anna"), ("root", None)])
def test_a_principal_is_a_user_with_an_id_or_an_admin_without(who: tuple[str, str | None]) -> None:
    with pytest.raises(InvalidInput):
        Principal(*who)  # type: ignore[arg-type]


def test_localhost_is_this_machine_by_name() -> None:
    assert [is_loopback(host) for host in ("localhost", "[::1]", "example.org", "127.0.0.1.example.org")] == [
        *(True, True),
        *(False, False),
    ]


def test_a_user_sees_their_own_threads_and_nobody_elses(runtime: Runtime) -> None:
    for user_id in ("anna", "bert", None):
        runtime.create_thread("echo", thread_id=f"of-{user_id}", user_id=user_id).result()
    anna = authenticate(connection("Bearer for-anna", runtime=runtime))
    admin = authenticate(connection("Bearer for-all", runtime=runtime))

    assert visible(anna, "of-anna") == runtime.thread("of-anna")
    assert [visible(admin, f"of-{user_id}").id for user_id in ("anna", "bert", None)] == [
        "of-anna",
        "of-bert",
        "of-None",
    ]


def test_a_foreign_thread_and_an_unknown_one_are_refused_with_the_same_words(runtime: Runtime) -> None:
    runtime.create_thread("echo", thread_id="thread-1", user_id="bert").result()
    anna = authenticate(connection("Bearer for-anna", runtime=runtime))
    answers = []
    for thread_id in ("thread-1", "thread-2"):
        with pytest.raises(ThreadNotFound) as refused:
            visible(anna, thread_id)
        answers.append(refused.value.to_wire())

    assert str(answers[0]).replace("thread-1", "thread-2") == str(answers[1])


def test_a_deleted_thread_is_visible_to_nobody(runtime: Runtime) -> None:
    runtime.create_thread("echo", thread_id="gone", user_id="anna").result()
    runtime.delete_thread("gone").result()

    for token in ("for-anna", "for-all"):
        with pytest.raises(ThreadNotFound):
            visible(authenticate(connection(f"Bearer {token}", runtime=runtime)), "gone")


@pytest.mark.parametrize("thread_id", ["", "a b", "a\0b", "../etc", "x" * 129, "ü"])
def test_what_is_no_id_is_refused_before_anything_is_read(runtime: Runtime, thread_id: str) -> None:
    anna = authenticate(connection("Bearer for-anna", runtime=runtime))

    with pytest.raises((InvalidInput, ThreadNotFound)):
        visible(anna, thread_id)
