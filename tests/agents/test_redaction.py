"""Tests agents/redaction.py: nothing of a secret is left, however texts are cut and secrets overlap."""

from __future__ import annotations

import html
import json
import reprlib
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from treadle.agents.redaction import Redactor
from treadle.protocol.errors import shorten

# Few letters, so that secrets overlap, hold each other and begin everywhere; none of them is in a mark.
SECRETS = st.dictionaries(
    st.sampled_from(["A", "B", "C", "D"]), st.text("xyz", min_size=4, max_size=9), min_size=1, max_size=4
)
TEXTS = st.text("xyz .", max_size=60)
ANY_TEXT = st.text(max_size=40)


def cut(text: str, places: list[int]) -> list[str]:
    """Cut a text at places given modulo its length."""
    marks = sorted({place % (len(text) + 1) for place in places})
    return [text[low:high] for low, high in zip([0, *marks], [*marks, len(text)], strict=True)]


def streamed(redactor: Redactor, pieces: list[str]) -> tuple[str, list[str]]:
    stream = redactor.stream()
    shown = [stream.feed(piece) for piece in pieces]
    return "".join(shown) + stream.finish(), shown


def test_the_value_of_a_secret_gives_way_to_its_name() -> None:
    """Contract D.6 redaction: a secret is replaced, and no other text."""
    redactor = Redactor({"KEY": "s3cr3t", "TOKEN": "abcd"})

    assert redactor.text("key=s3cr3t, token=abcd!") == "key=[secret:KEY], token=[secret:TOKEN]!"
    assert redactor.text("nothing here") == "nothing here"
    assert redactor.text("s3cr3ts3cr3t") == "[secret:KEY][secret:KEY]"


def test_a_value_of_under_four_characters_is_left_alone() -> None:
    redactor = Redactor({"PIN": "123", "NONE": ""})

    assert not redactor
    assert redactor.text("1234") == "1234"
    assert streamed(redactor, ["12", "3"])[0] == "123"


def test_secrets_that_overlap_leave_nothing_of_either() -> None:
    redactor = Redactor({"A": "abcdef", "B": "defghi", "C": "bcde"})

    assert redactor.text("xabcdefghiy") == "x[secret:A]y"
    assert redactor.text("bcde-abcdef") == "[secret:C]-[secret:A]"
    assert redactor.text("bcdefghi") == "[secret:C]"


def test_a_secret_is_found_as_json_and_urls_write_it() -> None:
    secret = 'pa"ss\nwörd &'
    redactor = Redactor({"P": secret})

    for text in (json.dumps(secret), json.dumps(secret, ensure_ascii=False), quote(secret), repr(secret)):
        assert "ss" not in redactor.text(text), text


PEM = "-----BEGIN KEY-----\nMIIa+b/c\"d\\x<é🔑'\n-----END KEY-----\n"


@pytest.mark.parametrize("deep", [1, 2, 3])
@pytest.mark.parametrize(
    "write", [json.dumps, lambda value: json.dumps(value, ensure_ascii=False), repr, ascii, lambda value: repr([value])]
)
def test_a_secret_is_found_in_json_and_python_inside_one_another(write: Callable[[str], str], deep: int) -> None:
    text = PEM
    for _ in range(deep):
        text = write(text)

    assert "MIIa" not in Redactor({"KEY": PEM}).text(f"{{{text}}}")


@pytest.mark.parametrize(
    "write",
    [
        quote,
        quote_plus,
        html.escape,
        lambda value: quote(json.dumps(value)),
        lambda value: json.dumps(value).replace("/", "\\/"),
        lambda value: json.dumps(value, ensure_ascii=False).replace("<", "\\u003c"),
        lambda value: json.dumps(value).replace("ud83d\\udd11", "uD83D\\uDD11").replace("u00e9", "u00E9"),
    ],
)
def test_a_secret_is_found_as_other_programs_write_it(write: Callable[[str], str]) -> None:
    assert "MIIa" not in Redactor({"KEY": PEM}).text(write(PEM))


class Token(BaseModel):
    token: int


TOKEN = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.SflKxwRJSMeKKF2QT4fwpMeJf36"


def refused_token() -> str:
    with pytest.raises(ValidationError) as caught:
        Token.model_validate({"token": TOKEN})
    return str(caught.value)


@pytest.mark.parametrize(
    "text",
    [shorten(TOKEN, 60), shorten({"a": [TOKEN]}, 60), reprlib.repr([TOKEN]), refused_token(), f"…{TOKEN[70:]} and"],
)
def test_what_a_cut_has_left_of_a_secret_is_taken_out(text: str) -> None:
    """Contract D.6 redaction: an error shows a long value by its ends, and each end tells of the secret."""
    shown = Redactor({"KEY": TOKEN}).text(text)

    assert "[secret:KEY]" in shown
    assert not any(TOKEN[at : at + 8] in shown for at in range(len(TOKEN) - 8))


def test_a_few_characters_beside_a_cut_are_no_secret() -> None:
    redactor = Redactor({"KEY": "https://example.org/?key=12345", "PIN": "sesame"})

    assert redactor.text("see https… and see... so, ...345") == "see https… and see... so, ...345"
    assert redactor.text("https://ex… sesa... ...same") == "[secret:KEY]… [secret:PIN]... ...[secret:PIN]"
    assert redactor.said("sesa...") == "sesa..."


def test_data_is_redacted_at_every_depth_keys_included() -> None:
    redactor = Redactor({"K": "sesame"})

    data = {"a": ["open sesame", 1, None, {"sesame": (True, "x")}]}
    assert redactor.data(data) == {"a": ["open [secret:K]", 1, None, {"[secret:K]": [True, "x"]}]}
    assert redactor.data(7) == 7
    assert Redactor().data(data) is data


def test_two_names_of_one_value_and_two_values_of_one_name() -> None:
    assert Redactor([("A", "same-value"), ("B", "same-value")]).text("same-value") == "[secret:A]"
    assert Redactor([("A", "first"), ("A", "second")]).text("first second") == "[secret:A] [secret:A]"


def test_a_redactor_shows_no_value_of_its_own() -> None:
    assert "sesame" not in repr(Redactor({"K": "sesame"}))


def test_a_stream_holds_back_only_what_could_begin_a_secret() -> None:
    stream = Redactor({"K": "sesame"}).stream()

    assert stream.feed("open ses") == "open "
    assert stream.feed("sion, ") == "session, "
    assert stream.feed("sesam") == ""
    assert stream.feed("e!") == "[secret:K]!"
    assert stream.feed("se") == ""
    assert stream.finish() == "se"
    assert stream.finish() == ""


def test_a_stream_of_one_endless_secret_does_not_grow() -> None:
    redactor = Redactor({"K": "xxxx"})
    stream = redactor.stream()

    shown = "".join(stream.feed("x" * 7) for _ in range(1000))
    assert shown == "[secret:K]"
    assert len(stream._held) < 4
    assert stream.finish() == ""


@given(SECRETS, TEXTS, st.lists(st.integers(0, 100), max_size=8))
@example({"A": "xyxy"}, "xyxyxyx", [1, 2, 3, 4, 5, 6])
@example({"A": "xxxx", "B": "xxxxxy"}, "xxxxxx", [4])
def test_no_text_and_no_way_to_cut_it_leaks_a_secret(secrets: dict[str, str], text: str, places: list[int]) -> None:
    """Contract D.6 redaction: the pieces of a stream come to the same text as the whole, and leak nothing on the way."""
    redactor = Redactor(secrets)
    whole = redactor.said(text)
    came_to, shown = streamed(redactor, cut(text, places))

    assert came_to == whole
    for value in secrets.values():
        assert value not in whole
    for count in range(len(shown)):
        assert whole.startswith("".join(shown[:count]))


@given(st.dictionaries(st.text(max_size=3), ANY_TEXT, max_size=4), ANY_TEXT, st.lists(st.integers(0, 100), max_size=8))
def test_any_secrets_and_any_text_come_to_the_same_in_pieces(
    secrets: dict[str, str], text: str, places: list[int]
) -> None:
    redactor = Redactor(secrets)
    text = text.join(secrets.values()) if secrets else text

    assert streamed(redactor, cut(text, places))[0] == redactor.said(text)


@given(SECRETS, TEXTS)
def test_what_stands_outside_of_secrets_is_untouched(secrets: dict[str, str], text: str) -> None:
    covered = [False] * len(text)
    for value in secrets.values():
        for at in range(len(text)):
            if text.startswith(value, at):
                covered[at : at + len(value)] = [True] * len(value)

    shown = Redactor(secrets).text(text)
    for name in secrets:
        shown = shown.replace(f"[secret:{name}]", "")
    assert shown == "".join(char for char, hidden in zip(text, covered, strict=True) if not hidden)
