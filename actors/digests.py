"""Owns what makes two calls under one id the same: SHA-256 over verb, target and content. Compares nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from ..protocol.messages import Draft

__all__ = ["control_digest", "input_digest"]


def input_digest(verb: str, execution_id: str | None, drafts: Sequence[Draft], on_busy: str, *, hold: bool) -> bytes:
    """Return the digest of an input or steer; message ids are left out, since every call makes new ones."""
    content = [{key: value for key, value in draft.items() if key != "id"} for draft in drafts]
    return _digest([verb, execution_id, content, on_busy, hold])


def control_digest(verb: str, execution_id: str, *, hold: bool) -> bytes:
    """Return the digest of a control without content; its reason is text for people and does not count."""
    return _digest([verb, execution_id, [], "", hold])


def _digest(value: object) -> bytes:
    # Sorted keys: the order in which a caller built a dict is not content.
    encoded = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(encoded.encode()).digest()
