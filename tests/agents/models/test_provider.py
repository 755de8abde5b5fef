"""A provider over a real socket, and how it is named: agents/models/provider.py."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pydantic_ai.models.openai  # noqa: F401 - takes long, and would be counted to the first test that needs it
import pytest

from tests.agents.models.asking import HELLO, Asking, chain, error_of, turns
from tests.agents.models.provider_server import (
    GUARD_S,
    Exchange,
    Server,
    answering,
    cutting,
    garbling,
    refusing,
    stalling,
)
from treadle.agents.models import (
    ExtraMissing,
    Finished,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    Usage,
)
from treadle.agents.models.provider import ProviderModel, model_from_env
from treadle.agents.testing.scripted_model import ScriptedModel
from treadle.protocol.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

USAGE = {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16, "prompt_tokens_details": {"cached_tokens": 3}}
KEY = "sk-of-this-test-alone"


@asynccontextmanager
async def provider(server: Server) -> AsyncIterator[ProviderModel]:
    model = ProviderModel("openai:small", api_key=KEY, base_url=server.url)
    try:
        yield model
    finally:
        await model.aclose()


def ask(
    *replies: Callable[[Exchange], Awaitable[None]], asking: Asking | None = None, fallback: ScriptedModel | None = None
) -> tuple[ModelResponse, Server, Asking]:
    """Ask a provider that answers so; whenever only time can go on, it does."""
    used = asking or Asking()

    async def play() -> tuple[ModelResponse, Server, Asking]:
        async with Server(*replies) as server, provider(server) as model:
            models = chain(model, *([fallback] if fallback else []))
            return await until_done(used, used.ask(models)), server, used

    return asyncio.run(play())


async def until_done(asking: Asking, asked: Coroutine[object, object, ModelResponse]) -> ModelResponse:
    """Go on until the call is over; time moves only where it waits between two attempts."""
    task = asyncio.ensure_future(asked)
    while not task.done():
        slept = asyncio.ensure_future(asking.slept.wait())
        await asyncio.wait([task, slept], return_when=asyncio.FIRST_COMPLETED)
        slept.cancel()
        if not task.done():
            asking.slept.clear()
            asking.clock.advance(asking.clock.next_due() or 0)
    return task.result()


def test_an_answer_streams_as_it_is_written() -> None:
    asking, heard = Asking(), asyncio.Event()
    asking.on_delta = lambda delta: (asking.deltas.append(delta), heard.set())  # type: ignore[method-assign,return-value,assignment]

    async def slowly(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.send("Hel")
        await heard.wait()  # the rest is written only once the beginning was heard
        await exchange.send("lo", ("stop", USAGE))
        await exchange.raw("data: [DONE]\n\n")
        await exchange.end()

    response, server, _ = ask(slowly, asking=asking)

    assert (response.text, response.finish_reason) == ("Hello", "stop")
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.cached_tokens) == (11, 5, 3)
    assert asking.deltas[:2] == [TextDelta("Hel"), TextDelta("lo")]
    assert server.requests[0].headers["authorization"] == f"bearer {KEY}"


def calling(index: int, arguments: str, call_id: str | None = None, name: str | None = None) -> dict[str, object]:
    function = {"arguments": arguments, **({"name": name} if name else {})}
    return {
        "tool_calls": [
            {"index": index, "function": function, **({"id": call_id, "type": "function"} if call_id else {})}
        ]
    }


def test_tool_calls_stream_piece_by_piece_each_in_its_place() -> None:
    response, *_ = ask(
        answering(
            "Let me see", calling(0, "", "c1", "look"), calling(0, '{"x":'), calling(1, "", "c2", "send"), calling(1, "{"),
            calling(0, "1}"), calling(1, "}"), reason="tool_calls",
        )
    )  # fmt: skip

    assert response.text == "Let me see"
    assert response.tool_calls == (ToolCall("c1", "look", '{"x":1}'), ToolCall("c2", "send", "{}"))
    assert response.finish_reason == "tool_call"


def test_calls_with_the_same_id_and_arguments_that_are_no_json_come_as_they_are() -> None:
    response, *_ = ask(
        answering(calling(0, "{oops", "c1", "look"), calling(1, "{}", "c1", "look"), reason="tool_calls")
    )

    assert response.tool_calls == (ToolCall("c1", "look", "{oops"), ToolCall("c1", "look", "{}"))


def test_thoughts_come_apart_from_the_answer() -> None:
    response, _, asking = ask(answering({"reasoning_content": "hm"}, "Hello"))

    assert (response.reasoning, response.text) == ("hm", "Hello")
    assert ReasoningDelta("hm") in asking.deltas


def test_an_answer_without_anything_is_an_empty_response() -> None:
    response, *_ = ask(answering())

    assert response.is_empty


def test_e5_429_is_waited_out_as_the_provider_asks() -> None:
    response, server, asking = ask(
        refusing(429, {"message": "slow down", "type": "rate_limit_error"}, retry_after="7"), answering("Hello")
    )

    assert (response.text, response.attempts, asking.log[1]) == ("Hello", 2, 7.0)
    assert (asking.failures[0].status, asking.failures[0].retry_after, asking.failures[0].retryable) == (429, 7.0, True)
    assert len(server.requests) == 2


def test_a_quota_that_is_used_up_is_a_429_that_is_not_repeated() -> None:
    response, server, _ = ask(
        refusing(429, {"message": "pay", "code": "insufficient_quota"}), fallback=ScriptedModel("fallback")
    )

    assert (response.text, len(server.requests)) == ("fallback", 1)


def test_e5_500_is_repeated_once_then_the_next_model_is_asked() -> None:
    error = {"message": "oops", "type": "server_error"}

    response, server, asking = ask(refusing(500, error), refusing(503, error), fallback=ScriptedModel("fallback"))

    assert (response.text, response.attempts, asking.log[1]) == ("fallback", 3, 1.0)
    assert [failure.status for failure in asking.failures] == [500, 503]
    assert len(server.requests) == 2  # the library under it repeats nothing by itself


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_other_refusals_are_not_repeated(status: int) -> None:
    asking = Asking()

    error = error_of(lambda: ask(refusing(status, {"message": "no"}), asking=asking))

    assert (error.status, error.retryable, error.details["attempts"]) == (status, False, 1)


def test_the_key_is_never_shown_even_if_the_provider_says_it() -> None:
    error = error_of(lambda: ask(refusing(401, {"message": f"{KEY} is no key"})))

    assert KEY not in str(error.to_wire())
    assert "[api key] is no key" in str(error)


def test_a_providers_words_are_bounded() -> None:
    error = error_of(lambda: ask(refusing(400, {"message": "x" * 100_000})))

    assert len(str(error)) < 500


@pytest.mark.parametrize("orderly", [False, True])
def test_a_stream_cut_in_the_middle_is_asked_for_again(orderly: bool) -> None:
    response, _, asking = ask(cutting("Hel", orderly=orderly), answering("Hello"))

    assert (response.text, response.attempts) == ("Hello", 2)
    assert asking.log == [
        "model request", TextDelta("Hel"), "restart", 1.0, "model request", TextDelta("Hello"), asking.deltas[-1],
    ]  # fmt: skip
    assert asking.failures[0].status is None


def test_a_connection_cut_before_any_answer_is_asked_for_again() -> None:
    async def hang_up(exchange: Exchange) -> None:
        exchange.writer.close()

    assert ask(hang_up, answering("Hello"))[0].attempts == 2


@pytest.mark.parametrize("text", ["data: {oops\n\n", 'data: {"choices": 7}\n\n', "data: []\n\n", "\x00\xff"])
def test_malformed_json_is_a_failed_attempt_and_asked_for_again(text: str) -> None:
    response, *_ = ask(garbling(text, "Hel"), answering("Hello"))

    assert (response.text, response.attempts) == ("Hello", 2)


def test_an_error_inside_a_stream_means_what_it_means_before_one() -> None:
    response, _, asking = ask(
        garbling('data: {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}\n\n', "Hel"),
        answering("Hello"),
    )

    assert (response.text, asking.failures[0].status) == ("Hello", 429)


def test_a_page_that_is_no_stream_is_a_failed_attempt() -> None:
    async def page(exchange: Exchange) -> None:
        await exchange.head(200, "text/html")
        await exchange.raw("<h1>It works</h1>")
        await exchange.end()

    assert error_of(lambda: ask(page, page)).details["attempts"] == 2


@pytest.mark.parametrize(
    ("reply", "first", "limit"),
    [(stalling("Hel"), TextDelta("Hel"), 45), (stalling(), None, 120), (stalling(head=False), None, 120)],
)
def test_e5_a_stalled_stream_is_closed_and_the_next_model_asked(
    reply: Callable[[Exchange], Awaitable[None]], first: TextDelta | None, limit: float
) -> None:
    asking, begun = Asking(), asyncio.Event()

    def on_delta(delta: object) -> None:
        asking.log.append(delta)
        begun.set()

    asking.on_delta = on_delta  # type: ignore[method-assign,assignment]

    async def announced(exchange: Exchange) -> None:
        if first is None:
            begun.set()
        await reply(exchange)

    async def play() -> ModelResponse:
        async with Server(announced) as server, provider(server) as model:
            task = asyncio.ensure_future(asking.ask(chain(model, ScriptedModel("fallback"))))
            async with asyncio.timeout(GUARD_S):
                await begun.wait()
            await turns()
            assert not task.done()
            asking.clock.advance(limit - 1)
            await turns()
            assert not task.done()
            asking.clock.advance(1)
            response = await task
            await server.until_closed()
            return response

    response = asyncio.run(play())

    assert (response.text, response.attempts) == ("fallback", 2)
    assert asking.failures[0].stalled
    assert asking.log[1:-3] == ([first, "restart"] if first else [])


@pytest.mark.parametrize("reply", [stalling("Hel"), stalling(), stalling(head=False)])
def test_a_cancelled_call_is_seen_by_the_provider_as_a_closed_connection(
    reply: Callable[[Exchange], Awaitable[None]],
) -> None:
    asking, begun = Asking(), asyncio.Event()

    async def announced(exchange: Exchange) -> None:
        begun.set()
        await reply(exchange)

    async def play() -> None:
        async with Server(announced) as server, provider(server) as model:
            task = asyncio.ensure_future(asking.ask(chain(model, ScriptedModel("never"))))
            async with asyncio.timeout(GUARD_S):
                await begun.wait()
            await turns(5)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.until_closed()

    asyncio.run(play())

    assert asking.failures == []


def test_a_closed_generator_is_seen_by_the_provider_as_a_closed_connection() -> None:
    async def play() -> None:
        async with Server(stalling("Hel")) as server, provider(server) as model:
            stream = model.stream(HELLO)
            assert await anext(stream) == TextDelta("Hel")
            await stream.aclose()
            await server.until_closed()

    asyncio.run(play())


def test_a_server_that_is_not_there_may_be_there_later() -> None:
    async def play() -> None:
        async with Server() as server:
            pass
        async with provider(server) as model:
            await anext(model.stream(HELLO))

    error = error_of(lambda: asyncio.run(play()))

    assert (error.retryable, error.status) == (True, None)


def test_one_model_serves_several_loops_one_after_another() -> None:
    async def serve(model: ProviderModel | None, port: int) -> tuple[ProviderModel, int]:
        async with Server(answering("Hello"), port=port) as server:
            model = model or ProviderModel("openai:small", api_key=KEY, base_url=server.url)
            assert TextDelta("Hello") in [delta async for delta in model.stream(HELLO)]
            await model.aclose()
            await model.aclose()
            return model, server.port

    asyncio.run(serve(*asyncio.run(serve(None, 0))))


def test_connections_are_kept_between_requests() -> None:
    async def play() -> None:
        async with Server(answering("a"), answering("b")) as server, provider(server) as model:
            for _ in range(2):
                assert isinstance([delta async for delta in model.stream(HELLO)][-1], Finished)
            assert len({id(exchange.writer) for exchange in server.requests}) == 1

    asyncio.run(play())


def test_the_environment_names_the_model() -> None:
    async def play() -> list[object]:
        async with Server(answering("Hello", usage=USAGE)) as server:
            named = {"TREADLE_MODEL": "openai:small", "TREADLE_API_KEY": KEY, "TREADLE_BASE_URL": server.url}
            model = model_from_env(named)
            assert model is not None
            try:
                said = [delta async for delta in model.stream(HELLO)]
            finally:
                await model.aclose()
            assert server.requests[0].body["model"] == "small"
            return said

    said = asyncio.run(play())

    assert said[0] == TextDelta("Hello")
    assert isinstance(said[-1], Finished)
    assert isinstance(said[-1].usage, Usage)


def test_an_environment_that_names_no_model_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TREADLE_MODEL", raising=False)

    assert model_from_env() is None
    assert model_from_env({"TREADLE_MODEL": ""}) is None


@pytest.mark.parametrize("model", ["", "gpt", "openai:", ":gpt", 7, "nobody:gpt", "openai:gpt-4o"])
def test_a_model_that_cannot_be_reached_is_refused_where_it_is_named(
    model: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    with pytest.raises(InvalidInput) as refused:
        ProviderModel(model)  # type: ignore[arg-type]

    assert refused.value.code == "invalid_model"


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai.exceptions", None)

    with pytest.raises(ExtraMissing, match=r"pip install treadle\[models\]") as missing:
        ProviderModel("openai:small", api_key=KEY)

    assert (missing.value.code, missing.value.details["extra"]) == ("extra_missing", "models")


def test_a_provider_whose_own_package_is_missing_says_what_to_install() -> None:
    with pytest.raises(ExtraMissing, match=r"pydantic-ai-slim\[cohere\]"):
        ProviderModel("cohere:command", api_key=KEY)


@pytest.mark.slow
def test_everything_but_providers_works_without_the_extra() -> None:
    program = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"pydantic_ai", "openai"}:
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
import treadle.agents, treadle.agents.models, treadle.agents.testing.scripted_model
from treadle.agents.models.provider import ProviderModel
try:
    ProviderModel("openai:small")
except Exception as error:
    print(type(error).__name__, error.code)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "ExtraMissing extra_missing"


@pytest.mark.slow
def test_importing_the_models_imports_no_provider() -> None:
    program = (
        "import sys, treadle.agents.models.provider; print([m for m in sys.modules if m.startswith('pydantic_ai')])"
    )

    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
        == "[]"
    )
