"""Owns a proxy that cuts connections: after so many bytes of an answer, wherever that is. Reads nothing of what it carries."""

from __future__ import annotations

import socket
import struct
import threading
from collections import deque
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

_CHUNK = 1 << 14
_RESET = struct.pack("ii", 1, 0)


class CuttingProxy:
    """Carries connections to a server; the first ones end early.

    Args:
        port: of the server, on this machine.
        cuts: how many bytes of answers each connection brings before it is cut, one after the other; those that come
            after them are left alone. Every second one is cut by a reset.
    """

    def __init__(self, port: int, cuts: Iterable[int] = ()) -> None:
        self.cuts = deque(cuts)
        self.cut = 0
        self.connections = 0
        self.server_port = port
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._workers = [threading.Thread(target=self._accept, name="treadle-test-proxy", daemon=True)]

    def __enter__(self) -> Self:
        self._workers[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A plain close does not wake who accepts.
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._workers[0].join(60)
        with self._lock:
            for one in self._open:
                _end(one)
        for worker in self._workers:
            worker.join(60)
            assert not worker.is_alive()

    def cut_all(self) -> None:
        """End every connection that is open now."""
        with self._lock:
            for one in self._open:
                _end(one)
            self._open.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.server_port))
            except OSError:
                _end(client)  # the server is away; another may come to another port
                continue
            budget = self.cuts.popleft() if self.cuts else None
            self.connections += 1
            with self._lock:
                self._open += [client, server]
            for work in (
                lambda c=client, s=server: self._ask(c, s),
                lambda c=client, s=server, b=budget: self._answer(c, s, b),
            ):
                worker = threading.Thread(target=work, name="treadle-test-proxy", daemon=True)
                self._workers.append(worker)
                worker.start()

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while data := client.recv(_CHUNK):
                server.sendall(data)
        except OSError:
            return
        finally:
            _end(server)

    def _answer(self, client: socket.socket, server: socket.socket, budget: int | None) -> None:
        try:
            while data := server.recv(_CHUNK):
                if budget is not None and len(data) >= budget:
                    client.sendall(data[:budget])
                    self.cut += 1
                    if self.cut % 2:
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                        # What another worker reads from stays open, so that one is woken first.
                        client.shutdown(socket.SHUT_RD)
                        client.close()
                    return
                client.sendall(data)
                budget = None if budget is None else budget - len(data)
        except OSError:
            return
        finally:
            _end(client)
            _end(server)


def _end(one: socket.socket) -> None:
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
    finally:
        one.close()
