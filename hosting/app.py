"""Owns the app: which routes there are, what stands before them, what they find. Opens and closes no runtime."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import FastAPI
from fastapi.routing import APIRoute

from ..actors import Runtime
from . import (
    console_page,
    health,
    metrics,
    routes_inputs,
    routes_live,
    routes_messages,
    routes_threads,
    routes_values,
    sse,
    store_events,
    tickets,
    websocket,
)
from .auth import Auth
from .described import described
from .given import check_hosts, check_is
from .guard import Guard
from .heads import Heads
from .hosted import Hosted, Limits
from .paths import Paths
from .problems import handle_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["create_app"]

_ROUTERS = (
    routes_threads.router,
    routes_inputs.router,
    routes_messages.router,
    routes_live.router,
    routes_values.router,
    sse.router,
    store_events.router,
    tickets.router,
    websocket.router,
    health.router,
    metrics.router,
)


def create_app(
    runtime: Runtime,
    *,
    auth: Auth | None = None,
    allowed_hosts: Sequence[str] | None = None,
    limits: Limits | None = None,
    console: bool = True,
) -> FastAPI:
    """Make the ASGI app that serves a runtime; it can be mounted in another one, and serves while the runtime is open.

    Args:
        runtime: whose threads; opened and closed by its owner.
        auth: who may call; without tokens whoever comes from this machine, as an admin.
        allowed_hosts: names in `Host`, as `Guard` says; None for those of this machine alone.
        limits: what one client may cost.
        console: serve the page for people at the root, too.

    Raises:
        InvalidInput: `invalid_option`: one of these is of another kind.
    """
    check_is("runtime", runtime, Runtime, "a Runtime(store, agents=[...])")
    auth = Auth() if auth is None else check_is("auth", auth, Auth, "an Auth({token: Principal('admin')})")
    limits = Limits() if limits is None else check_is("limits", limits, Limits, "a Limits(...)")
    allowed = check_hosts(allowed_hosts)
    app = FastAPI(
        title="Treadle",
        version=version("treadle"),
        # Both pages of documentation would have a browser load programs from another host.
        docs_url=None,
        redoc_url=None,
        openapi_url=None,  # `described` serves it
        redirect_slashes=False,
        generate_unique_id_function=_operation,
    )
    app.state.treadle = Hosted(runtime, auth, limits, tickets.Tickets.of(runtime, limits.ticket_seconds))
    for router in _ROUTERS:
        app.include_router(router)
    if console:
        app.include_router(console_page.router)
    handle_errors(app)
    app.add_middleware(Heads)
    app.add_middleware(Paths)
    # The last one added stands first.
    app.add_middleware(Guard, limits=limits, allowed_hosts=allowed)
    described(app)
    return app


def _operation(route: APIRoute) -> str:
    return route.name
