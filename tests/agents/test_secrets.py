"""Tests agents/secrets.py: what is sealed opens under its key and name, and under no other."""

from __future__ import annotations

import base64
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agents.models.errors import ExtraMissing
from treadle.agents.secrets import Sealer, SecretUnreadable
from treadle.protocol.errors import InvalidInput

KEY = "a key of many characters"


@given(st.text(max_size=200), st.text(min_size=1, max_size=20))
def test_what_was_sealed_opens_again(value: str, name: str) -> None:
    sealer = Sealer(KEY)

    sealed = sealer.seal(name, value)
    assert Sealer(KEY.encode()).open(name, sealed) == value
    assert sealed.isascii()


def test_nothing_of_a_value_is_seen_and_no_two_are_alike() -> None:
    sealer = Sealer(KEY)

    sealed = {sealer.seal("A", "sesame") for _ in range(50)}
    assert len(sealed) == 50
    assert not any(b"sesame" in base64.b64decode(one) for one in sealed)
    assert "many" not in repr(sealer)


def test_another_key_another_name_and_any_change_do_not_open() -> None:
    sealer = Sealer(KEY)
    sealed = sealer.seal("A", "sesame")
    raw = bytearray(base64.b64decode(sealed))

    for broken in range(len(raw)):
        changed = bytearray(raw)
        changed[broken] ^= 1
        with pytest.raises(SecretUnreadable):
            sealer.open("A", base64.b64encode(changed).decode())
    for other, name, text in (
        (Sealer("x" * 16), "A", sealed),
        (sealer, "B", sealed),
        (sealer, "A", "ä"),
        (sealer, "A", ""),
    ):
        with pytest.raises(SecretUnreadable) as refused:
            other.open(name, text)
        assert refused.value.details == {"name": name}


@pytest.mark.parametrize("key", ["", "short", b"fifteen bytes..", 7, None])
def test_a_key_that_is_none_is_refused_and_not_shown(key: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        Sealer(key)  # type: ignore[arg-type]
    assert refused.value.code == "invalid_key"
    assert "fifteen" not in str(refused.value)


def test_a_key_without_the_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(ExtraMissing, match=r"treadle\[secrets\]") as refused:
        Sealer(KEY)
    assert refused.value.details["extra"] == "secrets"
