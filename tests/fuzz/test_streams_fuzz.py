"""Holds the streams against whatever bytes a client sends: an answer, a close code or a closed connection, never a dead server."""

from __future__ import annotations

import base64
import logging
import socket
import struct
from typing import TYPE_CHECKING

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.hosting.served import Served
from tests.hosting.watching import connect
from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.hosting.auth import Auth, Principal
from treadle.hosting.hosted import Limits
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

TOKEN = "for-all"
GUARD_S = 60.0
EXAMPLES = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])

text = st.text(max_size=40)
line = st.binary(max_size=60).map(lambda data: data.replace(b"\r", b"").replace(b"\n", b""))
queries = st.dictionaries(
    st.sampled_from(["after", "live", "depth", "reasoning", "includeSilent", "journal", "ticket", "x"]),
    text,
    max_size=4,
)
# Opcodes and lengths that exist and that do not, masked and not, whole and cut off.
frames = st.builds(
    lambda first, second, rest: bytes([first, second]) + rest,
    st.integers(0, 255),
    st.integers(0, 255),
    st.binary(max_size=80),
)


def masked(opcode: int, data: bytes) -> bytes:
    length = bytes([0x80 | len(data)]) if len(data) < 126 else bytes([0xFE]) + struct.pack("!H", len(data))
    return bytes([0x80 | opcode]) + length + b"\0\0\0\0" + data


well_formed = st.builds(masked, st.sampled_from([0, 1, 2, 8, 9, 10]), st.binary(max_size=200))


class Failures(logging.Handler):
    """Keeps what was logged with a traceback: what no client may bring about."""

    def __init__(self) -> None:
        super().__init__()
        self.met: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.met.append(logging.Formatter().format(record))


@agent
async def nothing(state: ThreadState) -> None:
    return


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    auth = Auth({TOKEN: Principal("admin")})
    with Runtime(MemoryStore(), agents=[nothing]) as runtime:
        runtime.create_thread(nothing, thread_id="t").result()
        failures = Failures()
        logging.getLogger().addHandler(failures)
        try:
            with Served(runtime, auth=auth, limits=Limits(body_seconds=2, write_seconds=2)) as served:
                still_serves(served)
                yield served
                still_serves(served)
        finally:
            logging.getLogger().removeHandler(failures)
        assert failures.met == []


def still_serves(served: Served) -> None:
    header = {"authorization": f"Bearer {TOKEN}"}
    with httpx.stream("GET", f"{served.url}/threads/t/events", headers=header, timeout=GUARD_S) as answer:
        assert next(answer.iter_lines()) == "event: snapshot"
    with connect(f"{served.ws}/threads/t/stream", additional_headers=header) as client:
        assert '"thread_status"' in str(client.recv(GUARD_S))
    assert served.runtime.thread("t").state().result().cursor.sequence == 1


def exchange(served: Served, *parts: bytes, answers: int = 0, is_all: bool = True) -> bytes:
    """Send bytes and return what came, until the server hangs up or a stream begins.

    Args:
        served: whose server.
        parts: what is sent.
        answers: how many parts are answered before the next is sent.
        is_all: say so; a server may hang up on who has nothing more to say, answered or not.
    """
    found = b""
    with socket.create_connection(("127.0.0.1", served.port), GUARD_S) as client:
        try:
            for number, part in enumerate(parts):
                client.sendall(part)
                if number < answers:
                    found += client.recv(65536)
            if is_all:
                client.shutdown(socket.SHUT_WR)
            while b"snapshot" not in found and (data := client.recv(65536)):
                found += data
        except TimeoutError:
            raise AssertionError("the server neither answers nor hangs up") from None
        except OSError:
            return found  # it hung up before all was sent
    return found


def head(served: Served, path: str, *lines: bytes) -> bytes:
    given = [
        f"GET {path} HTTP/1.1".encode(),
        f"host: 127.0.0.1:{served.port}".encode(),
        f"authorization: Bearer {TOKEN}".encode(),
        *lines,
    ]
    return b"\r\n".join(given) + b"\r\n\r\n"


def status(answer: bytes) -> int:
    assert answer.startswith(b"HTTP/1.1 ")
    return int(answer[9:12])


@EXAMPLES
@given(query=queries, last=line, stream=st.sampled_from(["/threads/t/events", "/events", "/threads/t/stream"]))
def test_any_cursor_and_any_option_is_answered(served: Served, query: dict[str, str], last: bytes, stream: str) -> None:
    address = httpx.URL(served.url + stream, params=query)

    answer = exchange(
        served, head(served, address.raw_path.decode(), b"last-event-id: " + last, b"connection: close"), is_all=False
    )

    assert status(answer) in (200, 400, 409)


@EXAMPLES
@given(thread_id=st.text(min_size=1, max_size=20), stream=st.sampled_from(["events", "stream"]))
def test_any_id_is_answered(served: Served, thread_id: str, stream: str) -> None:
    encoded = "".join(f"%{byte:02X}" for byte in thread_id.encode("utf-8", "surrogatepass"))

    answer = exchange(served, head(served, f"/threads/{encoded}/{stream}", b"connection: close"), is_all=False)

    assert status(answer) in ((200, 400, 404) if thread_id == "t" else (400, 404))


@EXAMPLES
@example([masked(1, b"\x95")])
@given(st.lists(st.one_of(frames, well_formed, st.binary(max_size=100)), max_size=6))
def test_any_bytes_on_an_open_websocket_are_answered_or_end_it(served: Served, parts: list[bytes]) -> None:
    key = base64.b64encode(b"0123456789abcdef")
    opening = head(
        served, "/threads/t/stream", b"upgrade: websocket", b"connection: upgrade", b"sec-websocket-version: 13",
        b"sec-websocket-key: " + key,
    )  # fmt: skip

    answer = exchange(served, opening, *parts, answers=1)

    assert status(answer) == 101


@EXAMPLES
@given(st.lists(line, max_size=5), st.binary(max_size=100))
def test_any_header_of_a_handshake_is_answered(served: Served, lines: list[bytes], rest: bytes) -> None:
    answer = exchange(
        served, head(served, "/threads/t/stream", b"connection: upgrade", b"upgrade: websocket", *lines), rest
    )

    assert answer == b"" or status(answer) in (101, 400, 401, 403, 405, 426, 431)


@EXAMPLES
@given(st.binary(max_size=300))
def test_bytes_that_are_no_request_are_answered_or_end_the_connection(served: Served, data: bytes) -> None:
    answer = exchange(served, data)

    assert answer == b"" or status(answer) in range(400, 500)
