"""Owns a server in this process on a real socket, for tests of what its clients see. The server's own process has others."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Self

from treadle.hosting import server as module
from treadle.hosting.app import create_app
from treadle.hosting.hosted import Limits
from treadle.hosting.outlet import bound_writes

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from fastapi import FastAPI

    from treadle.actors import Runtime
    from treadle.hosting.auth import Auth


class Served:
    """Serves a runtime from `with` on; `end` closes the runtime as SIGTERM does, leaving `with` only the server."""

    def __init__(
        self, runtime: Runtime, *, auth: Auth | None = None, limits: Limits | None = None,
        around: Callable[[FastAPI], FastAPI] = lambda app: app,
    ) -> None:  # fmt: skip
        self.runtime = runtime
        limits = limits or Limits()
        self.app = create_app(runtime, auth=auth, limits=limits)
        self._closes = False
        self._listening = module._listen("127.0.0.1", 0, needs_loopback=False)
        bound_writes(self._listening, limits.write_seconds)
        self.port = self._listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.ws = f"ws://127.0.0.1:{self.port}"
        self._server = module._Server(module._config(around(self.app), self.app.state.treadle), self._close)
        self._worker = threading.Thread(target=self._run, name="treadle-test-server", daemon=True)

    def __enter__(self) -> Self:
        self._worker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._worker.is_alive():
            self.end(closing=False)
        self._listening.close()

    def end(self, *, closing: bool = True) -> None:
        """End as a signal does: the runtime closes while the server answers, then the server ends."""
        self._closes = closing
        self._server.handle_exit(signal.SIGTERM, None)
        self._worker.join(60)
        assert not self._worker.is_alive(), "the server does not end"

    def _close(self) -> int:
        return module._close(self.runtime, None) if self._closes else 0

    def _run(self) -> None:
        with self._server.signals():
            self._server.run(sockets=[self._listening])
