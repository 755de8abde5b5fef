"""Owns the process of a service: its address, its signals, and the order in which it ends. Knows no route.

Theory of operation: the runtime closes while the server still answers. New work is refused, watchers see the last frames
of what ends, and every stream ends with its own last frame; then connections close, and the process is over. The other way
round, a client would be cut off from the end that it waits for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
import sys
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

import uvicorn

from ..actors import Runtime
from ..protocol.errors import InvalidInput, TreadleError
from .auth import is_loopback
from .connections import Connection
from .given import check_callable, check_is, wrong
from .hosted import Hosted
from .listening import Listening
from .outlet import bound_writes
from .sockets import Socket
from .tracing import following

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from fastapi import FastAPI

__all__ = ["SWITCH_INTERVAL_S", "serve"]

logger = logging.getLogger("treadle")

SWITCH_INTERVAL_S: Final = 0.0005
"""How long one worker computes before another may: beside one that computes, an execution took 12 ms, not 79."""

LEAVING_S: Final = 5
"""For connections to end once every stream has had its last frame."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_SOCKET_BYTES_MAX: Final = 64 << 10  # of one message from a WebSocket's client, who has only pings to send
_PORT_MAX: Final = 65_535
_HEAD_SLACK: Final = 16 << 10  # beyond `header_bytes`, so that the guard is the one who says what is too large


def serve(
    runtime: Runtime, app: FastAPI, host: str = "127.0.0.1", port: int = 8642, *, drain_timeout: float | None = None,
    announce: Callable[[str], object] | None = None,
) -> int:  # fmt: skip
    """Serve an app until a signal ends it, then close the runtime. Blocks; on the main worker, where signals arrive.

    SIGTERM or SIGINT: new work is refused, executions may end by themselves until the deadline and are interrupted then,
    each has a durable end, streams get their last frames. A second signal ends the process at once; the next open settles
    what was left.

    Args:
        runtime: open, made with `loop="own"` or opened by `with`: bodies do not share the server's loop.
        app: made of it by `create_app`.
        host: to listen on; beyond this machine only with tokens.
        port: 0 for a free one.
        drain_timeout: seconds; by default the runtime's.
        announce: told the address, once it is listened on; prints it by default.

    Returns:
        The exit code: 0, or 1 where the store refused last commits.

    Raises:
        InvalidInput: `invalid_option`: the address is beyond this machine, and no tokens are configured; or one of these is
            of another kind. Nothing was closed.
        OSError: the address cannot be listened on.
    """
    check_is("runtime", runtime, Runtime, "the Runtime that the app serves")
    hosted = check_is("app", getattr(getattr(app, "state", None), "treadle", app), Hosted, "what create_app returned")
    check_is("host", host, str, "a name or an address")
    if type(port) is not int or not 0 <= port <= _PORT_MAX:
        raise wrong("port", f"a whole number from 0 to {_PORT_MAX}", port)
    if drain_timeout is not None and (type(drain_timeout) not in {int, float} or not drain_timeout >= 0):
        raise wrong("drain_timeout", "a number of at least 0", drain_timeout)
    check_callable("announce", announce or _print, "called with the address")
    listening = _listen(host, port, needs_loopback=hosted.auth.is_open)
    bound_writes(listening, hosted.limits.write_seconds)
    _allow_open_files()
    server = _Server(_config(app, hosted), lambda: _close(runtime, drain_timeout))
    # The signals first: whoever has read the address may send one.
    with listening, _switch_interval(SWITCH_INTERVAL_S), server.signals(), following(runtime):
        if hosted.auth.is_open:
            logger.warning("No tokens are configured: only this machine may call, and whoever does is an admin")
        (announce or _print)(_address(listening, host))
        server.run(sockets=[listening])
    return server.code


def _is_ours_to_tell(record: logging.LogRecord) -> bool:
    """Leave out what no app did: a WebSocket refused with a document, a slow client let go, a client's broken UTF-8."""
    said = ("ASGI callable returned without completing", "Invalid UTF-8 sequence received from client")
    return not str(record.msg).startswith(said)


def _config(app: FastAPI, hosted: Hosted) -> uvicorn.Config:
    logging.getLogger("uvicorn.error").addFilter(_is_ours_to_tell)
    return uvicorn.Config(
        app,
        http=Connection,
        ws=Socket,
        ws_max_size=_SOCKET_BYTES_MAX,
        ws_per_message_deflate=False,
        h11_max_incomplete_event_size=hosted.limits.header_bytes + _HEAD_SLACK,
        # What a client says about where it comes from is not believed: who has no token has to come from this machine.
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_config=None,
        loop="asyncio",
        timeout_graceful_shutdown=1,  # they had `LEAVING_S` before
    )


class _Server(uvicorn.Server):
    """uvicorn with our signals: the first drains, the second ends the process."""

    def __init__(self, config: uvicorn.Config, close: Callable[[], int]) -> None:
        super().__init__(config)
        self.code = 0
        self._close = close
        self._signalled: SimpleQueue[int | None] = SimpleQueue()
        self._ending = False

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """Take the signals; they are not given on afterwards, since what they ask for is done."""
        # Waits from the start: a handler may interrupt anything, also the start of another worker.
        worker = threading.Thread(target=self._end, name="treadle-closing", daemon=True)
        worker.start()
        is_main = threading.current_thread() is threading.main_thread()
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS} if is_main else {}
        try:
            yield
        finally:
            self._signalled.put(None)
            worker.join()
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals as they are; uvicorn would drop its connections at the first."""
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the form of a signal handler
        """Take a signal, whatever the loop does meanwhile."""
        if self._ending:
            # No clean-up can be waited for: whoever signals twice has waited enough. The store survives any death.
            os._exit(128 + sig)
        self._ending = True
        self._signalled.put(sig)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let every stream, whose thread's last frame is on its way, come to its end; uvicorn would cut WebSockets off.

        What a client does not take in that time is dropped, with its connection.
        """
        under_way = set(self.server_state.tasks)
        if under_way:
            _, late = await asyncio.wait(under_way, timeout=LEAVING_S)
            if late:
                # Cancelled, each would be logged as a failure of the app; cut off, each meets a client that is gone.
                self._cut_off()
                await asyncio.wait(late, timeout=1)
        await super().shutdown(sockets)
        self._cut_off()  # whose last frames nobody read
        await asyncio.sleep(0)

    def _cut_off(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    def _end(self) -> None:
        """Close the runtime on a worker of its own, while the loop serves on."""
        if self._signalled.get() is None:
            return
        try:
            self.code = self._close()
        except BaseException:
            logger.exception("Closing the runtime failed")
            self.code = 1
        finally:
            self.should_exit = True


def _close(runtime: Runtime, drain_timeout: float | None) -> int:
    """Close the runtime and return the exit code."""
    try:
        runtime.close(drain_timeout)
    except TreadleError as error:
        logger.error("The service ends incompletely: %s", error, extra={"code": error.code})  # noqa: TRY400 - it says all
        return 1
    return 0


def _listen(host: str, port: int, *, needs_loopback: bool) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    # What the name came to, and not the name: hosts files may say anything.
    if needs_loopback and not is_loopback(str(address[0])):
        raise InvalidInput(
            f"without tokens only this machine may call, and {host!r} is reached from others: configure a token, "
            "or listen on 127.0.0.1",
            code="invalid_option",
            value=host,
        )
    # With its protocol, or asyncio leaves Nagle's algorithm on: every answer then waits 40 ms for an acknowledgement.
    made = Listening(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(2048)
        made.set_inheritable(False)
    except BaseException:
        made.close()
        raise
    return made


def _allow_open_files() -> None:
    """Use what the system allows: each client is an open file, and 1,024 are the rule where nobody asks for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:
            logger.info("This process may open %d files, and no more: %s", soft, error)


def _address(listening: socket.socket, host: str) -> str:
    port = listening.getsockname()[1]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _print(address: str) -> None:
    sys.stdout.write(f"Serving on {address}\n")
    sys.stdout.flush()


@contextlib.contextmanager
def _switch_interval(seconds: float) -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
