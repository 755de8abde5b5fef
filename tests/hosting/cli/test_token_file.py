"""Owns the proof of treadle.hosting.cli.token_file: whose a token is, and that no error shows one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from treadle.hosting.auth import Principal
from treadle.hosting.cli.token_file import read_tokens
from treadle.protocol.errors import InvalidInput

if TYPE_CHECKING:
    from pathlib import Path


def written(path: Path, text: str | bytes, mode: int = 0o600) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(mode)
    return path


def test_a_line_is_a_token_and_perhaps_a_user(tmp_path: Path) -> None:
    auth = read_tokens(written(tmp_path / "tokens", "# ours\n\nadmin-token\n  users-token   mia \r\n"))

    assert auth.find("admin-token") == Principal("admin")
    assert auth.find("users-token") == Principal("user", "mia")
    assert auth.find("#") is None
    assert not auth.is_open


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it has no token"),
        ("# only words\n", "it has no token"),
        ("secret mia more\n", "line 1 is neither"),
        ("ok\nsecret\nsecret\n", "the token of line 3 is there before"),
        ("secr\u00e9t\n", "line 1: "),
        ("secret \u00e9\n", "line 1: "),
        (b"secret\xff\n", "it is no text"),
    ],
)
def test_a_file_that_is_wrong_is_refused_without_its_tokens(text: str | bytes, why: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_tokens(written(tmp_path / "tokens", text))

    assert caught.value.code == "invalid_tokens"
    assert why in str(caught.value)
    assert "secr" not in str(caught.value)


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="its mode is 644 and should be 600"):
        read_tokens(written(tmp_path / "tokens", "secret\n", 0o644))
    with pytest.raises(FileNotFoundError):
        read_tokens(tmp_path / "missing")
