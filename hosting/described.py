"""Owns the OpenAPI document: what it says beyond what FastAPI finds out (problems, tokens, no 422), and its one route."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from fastapi import Request, Response

from .problems import Problem

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["described"]

_TOKEN: Final = {"type": "http", "scheme": "bearer", "description": "Without configured tokens none is needed."}


def described(app: FastAPI) -> None:
    """Make an app's OpenAPI document tell all that its routes may answer, and serve it at `/openapi.json`."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        # Kept by the app, so this runs once.
        is_new = app.openapi_schema is None
        document = made()
        return _completed(document) if is_new else document

    app.openapi = openapi  # type: ignore[method-assign]
    encoded: dict[str, bytes] = {}  # by the prefix under which the app is mounted, which no client chooses

    async def document(request: Request) -> Response:
        prefix = request.scope.get("root_path", "").rstrip("/")
        body = encoded.get(prefix)
        if body is None:
            served = openapi() if not prefix else {**openapi(), "servers": [{"url": prefix}]}
            body = encoded[prefix] = _encode(served)
        return Response(body, media_type="application/json")

    # FastAPI's own route encodes the document for every request, for 8 ms on the loop, and asks for no token.
    app.add_api_route("/openapi.json", document, include_in_schema=False)


def _encode(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    for operations in document["paths"].values():
        for operation in operations.values():
            # Invalid requests get our problems, with 400.
            operation["responses"].pop("422", None)
            operation["security"] = [{"token": []}, {}]
    parts = document.setdefault("components", {})
    schemas = parts.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = Problem.model_json_schema()
    parts["securitySchemes"] = {"token": _TOKEN}
    return document
