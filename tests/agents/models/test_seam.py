"""What the loop and a model say to each other: agents/models/seam.py."""

from __future__ import annotations

import base64

import pytest

from treadle.agents.models import Attachment, ModelResponse, ToolCall
from treadle.protocol.errors import InvalidInput


def test_an_attachment_is_made_of_its_json_form() -> None:
    made = Attachment.of({"name": "a.png", "mimeType": "image/png", "data": base64.b64encode(b"bytes").decode()})

    assert made == Attachment("a.png", "image/png", b"bytes")
    assert made.is_image


def test_an_attachment_that_is_only_a_path_keeps_it_and_is_called_by_it() -> None:
    assert Attachment.of({"path": "/attachments/a.bin"}) == Attachment(
        "/attachments/a.bin", "application/octet-stream", path="/attachments/a.bin"
    )


def test_an_attachment_whose_data_is_no_base64_is_refused() -> None:
    with pytest.raises(InvalidInput) as refused:
        Attachment.of({"name": "a", "data": "§"})

    assert refused.value.code == "invalid_attachment"


@pytest.mark.parametrize(
    ("response", "empty"),
    [
        (ModelResponse(), True),
        (ModelResponse(text=" \n", reasoning="hm"), True),
        (ModelResponse(text="a"), False),
        (ModelResponse(tool_calls=(ToolCall("", "t"),)), False),
    ],
)
def test_a_response_without_text_and_calls_is_empty(response: ModelResponse, empty: bool) -> None:
    assert response.is_empty is empty
