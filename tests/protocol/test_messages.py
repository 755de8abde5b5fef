"""What callers may hand in as messages, and the drafts that are made of it."""

from __future__ import annotations

import base64
import re
from itertools import count, product
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.protocol.errors import InvalidInput, LimitExceeded
from treadle.protocol.limits import INPUT_BYTES_MAX, MESSAGE_BYTES_MAX
from treadle.protocol.messages import (
    BASE64,
    ROLES,
    Message,
    check_attachments,
    check_message_id,
    check_text,
    draft_message,
    draft_messages,
    draft_size,
    draft_text,
    said,
)

USER = frozenset({"user"})


def drafts(content: Any, roles: frozenset[str] = ROLES) -> tuple[list[dict[str, Any]], int]:
    numbers = count(1)
    return draft_messages(content, lambda: f"m{next(numbers)}", role="user", roles=roles)


def test_a_text_is_one_message_and_the_draft_leaves_defaults_out() -> None:
    assert drafts("hi")[0] == [{"id": "m1", "role": "user", "content": "hi"}]


def test_a_list_may_mix_texts_dicts_and_messages() -> None:
    message = Message(id="old", role="assistant", content="c", created_at=5, silent=True)

    made, _ = drafts(["a", {"role": "system", "content": "b", "metadata": {"k": (1,)}}, message])

    assert made == [
        {"id": "m1", "role": "user", "content": "a"},
        {"id": "m2", "role": "system", "content": "b", "metadata": {"k": [1]}},
        {"id": "m3", "role": "assistant", "content": "c", "silent": True},
    ]


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_the_size_is_never_less_than_what_is_stored(text: str) -> None:
    made, size = drafts(text)
    listed, listed_size = drafts([text])

    packed = len(msgpack.packb(made[0]["content"]))
    assert size >= packed
    assert listed_size >= packed
    assert draft_size(made[0]) >= packed
    assert listed == made


@given(
    st.sampled_from([*ROLES, "robot", "", 7, None, ["user"]]),
    st.text()
    | st.text(st.characters(max_codepoint=127))
    | st.none()
    | st.integers()
    | st.just("x" * (MESSAGE_BYTES_MAX + 1)),
    st.sampled_from([ROLES, USER]),
)
def test_what_is_taken_at_a_glance_is_what_a_look_would_have_taken(
    role: Any, content: Any, roles: frozenset[str]
) -> None:
    glanced = draft_text("m", role, content, roles)

    if glanced is not None:
        assert role in roles
        check_text(content, optional=False)
        assert glanced == {"id": "m", "role": role, "content": content}
        assert drafts(content)[1] == draft_size(glanced)
    elif isinstance(content, str) and content.isascii() and 0 < len(content) <= MESSAGE_BYTES_MAX:
        assert type(role) is not str or role not in roles


@settings(max_examples=50)
@given(
    st.recursive(
        st.none() | st.text() | st.integers() | st.binary(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    )
)
def test_any_content_is_taken_or_refused_with_a_documented_error(content: Any) -> None:
    try:
        made, size = drafts(content)
    except (InvalidInput, LimitExceeded):
        return
    assert made
    assert size > 0
    msgpack.packb(made)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("", "empty_content"),
        ([], "empty_content"),
        ([""], "empty_content"),
        ([{"content": None}], "empty_content"),
        ([{}], "empty_content"),
        (None, "invalid_content"),
        (5, "invalid_content"),
        (b"hi", "invalid_content"),
        ({"content": "a"}, "invalid_content"),
        ([5], "invalid_content"),
        ([{"content": 5}], "invalid_content"),
        ([{"content": "a", "colour": 1}], "invalid_content"),
        ([{"content": "a", "id": "mine"}], "invalid_content"),
        ([{"content": "a", "tool_calls": "[]"}], "invalid_content"),
        ([{"content": "a", "tool_calls": "no JSON", "role": "assistant"}], "invalid_content"),
        ([{"content": "a", "tool_call_id": "c"}], "invalid_content"),
        ([Message(id="m", role="assistant", content="a", tool_calls="[]", created_at=1)], "invalid_content"),
        ([Message(id="m", role="tool", content="a", tool_call_id="c", created_at=1)], "invalid_content"),
        ([{"content": "a", "silent": 1}], "invalid_content"),
        ([{"content": "a", "name": 5}], "invalid_content"),
        ("bad \ud800", "invalid_content"),
        ([{"content": "a", "name": "\udfff"}], "invalid_content"),
        ([{"content": "a", "role": "robot"}], "invalid_role"),
        ([{"content": "a", "role": ["user"]}], "invalid_role"),
        ([{"content": "a", "role": None}], "invalid_role"),
        ([{"content": "a", "metadata": [1]}], "invalid_value"),
        ([{"content": "a", "metadata": {"k": b"x"}}], "invalid_value"),
        ([{"content": "a", "attachments": 5}], "invalid_value"),
        ([{"content": "a", "attachments": ["x"]}], "invalid_value"),
        ([{"content": "a", "attachments": [{"k": b"x"}]}], "invalid_value"),
        ([{"content": "a", "attachments": [{"data": 5}]}], "invalid_attachment"),
        ([{"content": "a", "attachments": [{"data": "QQ"}]}], "invalid_attachment"),
        ([{"content": "a", "attachments": [{"data": "QQ==\n"}]}], "invalid_attachment"),
        ([{"content": "a", "attachments": [{"data": "data:image/png;base64,QQ=="}]}], "invalid_attachment"),
    ],
)
def test_bad_content_is_refused_by_code(content: Any, code: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        drafts(content)

    assert caught.value.code == code
    assert len(str(caught.value)) < 300


def test_a_verb_takes_only_its_roles() -> None:
    with pytest.raises(InvalidInput) as caught:
        drafts([{"role": "assistant", "content": "a"}], USER)

    assert caught.value.code == "invalid_role"
    assert "user" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "limit", "maximum"),
    [
        ("x" * (MESSAGE_BYTES_MAX + 1), "message_bytes", MESSAGE_BYTES_MAX),
        ("é" * (MESSAGE_BYTES_MAX // 2 + 1), "message_bytes", MESSAGE_BYTES_MAX),
        (["x" * MESSAGE_BYTES_MAX] * 5, "input_bytes", INPUT_BYTES_MAX),
        (["x"] * 257, "messages_per_input", 256),
        ([{"content": "a", "attachments": [{}] * 257}], "attachments", 256),
    ],
)
def test_a_refusal_by_size_names_the_limit_and_the_size_met(content: Any, limit: str, maximum: int) -> None:
    with pytest.raises(LimitExceeded) as caught:
        drafts(content)

    details = caught.value.details
    assert (details["limit"], details["maximum"]) == (limit, maximum)
    assert details["met"] > maximum  # type: ignore[operator]


def test_a_message_of_exactly_the_limit_is_taken() -> None:
    assert drafts("x" * MESSAGE_BYTES_MAX)[1] > MESSAGE_BYTES_MAX


@pytest.mark.parametrize(
    "fields",
    [
        {"attachments": [{"path": "a"}]},
        {"tool_calls": "[]", "role": "assistant"},
        {"role": "tool", "tool_call_id": "c"},
    ],
)
@pytest.mark.parametrize("content", [None, ""])
def test_content_may_be_missing_beside_what_stands_for_it(fields: dict[str, Any], content: str | None) -> None:
    made = draft_message("m", content=content, **{"role": "user", **fields})

    assert made["content"] == content


def test_a_draft_is_a_copy_of_what_was_handed_in() -> None:
    metadata = {"tags": ["a"]}
    made = draft_message("m", "user", "x", metadata=metadata)

    metadata["tags"].append("b")

    assert made["metadata"] == {"tags": ["a"]}


@given(st.text(min_size=1), st.sampled_from(sorted(ROLES)))
def test_the_record_of_a_text_is_the_one_that_is_checked_field_by_field(content: str, role: Any) -> None:
    made = said({"id": "m", "role": role, "content": content}, 7)
    checked = Message(id="m", role=role, content=content, created_at=7)

    assert made == checked
    assert made.model_dump_json() == checked.model_dump_json()
    assert list(made.__dict__) == list(checked.__dict__)
    assert made.model_fields_set == checked.model_fields_set
    assert made.model_copy(deep=True) == checked
    assert made.attachments is not said({"id": "n", "role": role, "content": content}, 7).attachments
    made.model_copy(update={"silent": True})
    assert made.model_fields_set == checked.model_fields_set


def test_a_message_is_frozen_with_the_agreed_defaults() -> None:
    message = Message(id="m", role="user", content="x", created_at=1)

    assert (message.depth, message.silent, message.status, message.attachments, message.metadata) == (
        0,
        False,
        "completed",
        [],
        None,
    )
    with pytest.raises(ValueError, match="frozen"):
        message.content = "y"  # type: ignore[misc]
    with pytest.raises(ValueError, match="extra"):
        Message(id="m", role="user", content="x", created_at=1, colour="red")  # type: ignore[call-arg]


def test_a_message_id_is_an_id() -> None:
    assert check_message_id("m-1") == "m-1"
    with pytest.raises(InvalidInput):
        check_message_id("")


@given(st.binary(max_size=64))
def test_whatever_base64_writes_may_be_attached(data: bytes) -> None:
    given = {"data": base64.b64encode(data).decode()}
    (draft,), _size = draft_messages([{"content": "a", "attachments": [given]}], lambda: "m", "user", ROLES)

    assert draft["attachments"] == [given]


@given(st.text("QA=+/- ", max_size=12))
def test_what_does_not_decode_is_refused(data: str) -> None:
    try:
        base64.b64decode(data, validate=True)
    except ValueError:
        with pytest.raises(InvalidInput) as error:
            check_attachments([{"data": data}])
        assert error.value.details["path"] == "$.attachments[0].data"


def test_the_pattern_that_schemas_show_takes_what_the_check_takes() -> None:
    def is_taken(data: str) -> bool:
        try:
            check_attachments([{"data": data}])
        except InvalidInput:
            return False
        return True

    shown = re.compile(BASE64)
    words = [
        "".join(word) for length in range(10) for word in product("A/=" if length > 6 else "A/=-\n", repeat=length)
    ]

    assert [word for word in words if is_taken(word) != bool(shown.fullmatch(word))] == []
    assert sum(map(is_taken, words)) > 100
