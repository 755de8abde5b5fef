"""Owns the app: which routes there are, what stands before them, what they find. Opens and closes no runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI

from .auth import Auth
from .hosted import Hosted, Limits
from .paths import Paths
from .problems import handle_errors

if TYPE_CHECKING:
    from ..actors import Runtime

__all__ = ["create_app"]


def create_app(
    runtime: Runtime,
    *,
    auth: Auth | None = None,
    limits: Limits | None = None,
) -> FastAPI:
    """Make the ASGI app that serves a runtime; it can be mounted in another one, and serves once the runtime is open.

    Args:
        runtime: whose threads; opened and closed by its owner.
        auth: who may call; without tokens only this machine.
        limits: what one client may cost.
    """
    app = FastAPI(title="Treadle", version="1", docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.treadle = Hosted(runtime, auth or Auth(), limits or Limits())
    handle_errors(app)
    app.add_middleware(Paths)
    return app
