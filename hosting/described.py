"""Owns what the OpenAPI document says beyond what FastAPI finds out: problems, tokens, no 422. Serves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .problems import Problem

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["described"]

_TOKEN: Final = {"type": "http", "scheme": "bearer", "description": "Without configured tokens none is needed."}


def described(app: FastAPI) -> None:
    """Make an app's OpenAPI document tell all that its routes may answer."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        # Kept by the app, so this runs once.
        is_new = app.openapi_schema is None
        document = made()
        return _completed(document) if is_new else document

    app.openapi = openapi  # type: ignore[method-assign]


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
