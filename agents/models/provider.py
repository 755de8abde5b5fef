"""Owns `ProviderModel`, a model of a real provider, reached through pydantic-ai (extra `models`). Repeats no request."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Final

from ...protocol.errors import InvalidInput, shorten
from .errors import ExtraMissing, ModelError
from .seam import Delta, ModelRequest

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.providers import Provider

__all__ = ["ProviderModel", "model_from_env"]

_OPENAI: Final = frozenset({"openai", "openai-chat", "openai-compatible"})


class ProviderModel:
    """A provider's model; its HTTP connections are kept between requests, apart for each event loop.

    Args:
        model: `<provider>:<model>`, such as `openai:gpt-6-luna`, `anthropic:claude-sonnet-5-5`, `google:gemini-3.8-flash`.
        api_key: by default the provider's own environment variable.
        base_url: another address; with `openai:` the address of any server with an OpenAI-compatible chat API.
        name: what it is called in errors, by default `model`.
        settings: `temperature`, `max_tokens` and the like; those of a request win over them.

    Raises:
        ExtraMissing: the packages are not installed; the message says what to install.
        InvalidInput: `invalid_model`: no such provider, no key for it, or an option that it does not take.
    """

    def __init__(
        self, model: str, *, api_key: str | None = None, base_url: str | None = None, name: str | None = None, **settings: object
    ) -> None:  # fmt: skip
        if not isinstance(model, str) or not all(model.partition(":")):
            raise InvalidInput(
                f"a provider's model is '<provider>:<model>', not {shorten(model)}",
                code="invalid_model",
                value=shorten(model),
            )
        self.name = name or model
        self.model = model
        self.settings: Mapping[str, object] = settings
        self._api_key = api_key
        self._base_url = base_url
        self._lock = threading.Lock()
        self._built: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Model] = weakref.WeakKeyDictionary()
        self._first: Model | None = self._build()  # here, so that a mistake shows where it was made

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[Delta, None]:
        """Ask the provider once; closing the generator closes the HTTP stream.

        Raises:
            ModelError: the provider refused, broke, or was cut off.
        """
        from pydantic_ai.direct import model_request_stream

        from .provider_reply import Listener, error_of, finished_of
        from .provider_request import messages_of, parameters_of, settings_of

        listener = Listener(thoughts=request.reasoning is None or not request.reasoning.exclude)
        try:
            model = self._here()
            async with model_request_stream(
                model, messages_of(request, model.system), model_settings=settings_of(model, request, self.settings),
                model_request_parameters=parameters_of(request), instrument=False,
            ) as events:  # fmt: skip
                async for event in events:
                    yield listener.heard(event)
                finished = finished_of(events.get(), self.name)
        except ModelError:
            raise
        except Exception as error:
            raise error_of(self.name, error, self._api_key) from error
        yield finished

    async def aclose(self) -> None:
        """Close the connections kept for the running event loop; the next request opens new ones."""
        with self._lock:
            model = self._built.pop(asyncio.get_running_loop(), None)
        if model is not None:
            async with model:
                pass  # the library closes at the end of its context

    def _here(self) -> Model:
        loop = asyncio.get_running_loop()
        with self._lock:
            model = self._built.get(loop)
            if model is None:
                model, self._first = self._first or self._build(), None
                self._built[loop] = model
            return model

    def _build(self) -> Model:
        try:
            from pydantic_ai.exceptions import UserError
            from pydantic_ai.models import infer_model
        except ImportError as error:
            raise _missing("pip install treadle[models]", error) from error
        provider, _, name = self.model.partition(":")
        try:
            if self._base_url is not None and provider in _OPENAI:
                return _compatible(name, self._base_url, self._api_key)
            return infer_model(self.model, self._provider)
        except ImportError as error:
            raise _missing(f'pip install "treadle[models]" "pydantic-ai-slim[{provider}]"', error) from error
        except (UserError, ValueError, TypeError) as error:
            raise InvalidInput(
                f"model {self.model!r} cannot be reached: {error}", code="invalid_model", value=self.model
            ) from error

    def _provider(self, name: str) -> Provider[object]:
        from pydantic_ai.providers import infer_provider_class

        given = {"api_key": self._api_key, "base_url": self._base_url}
        # Only what was given: not every provider takes both, and one that does not says so.
        return infer_provider_class(name)(**{key: value for key, value in given.items() if value is not None})

    def __repr__(self) -> str:
        return f"<model {self.name!r} of a provider>"


def _compatible(name: str, base_url: str, api_key: str | None) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles import merge_profile
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    provider = OpenAICompatibleProvider("openai-compatible", base_url=base_url, api_key=api_key)
    # Without a reason to finish, a stream whose connection was closed in good order looks complete.
    strict = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
    return OpenAIChatModel(name, provider=provider, profile=merge_profile(provider.model_profile(name), strict))


def _missing(install: str, error: ImportError) -> ExtraMissing:
    return ExtraMissing(
        f"models of providers need more packages: {install} ({error})", extra="models", missing=error.name
    )


def model_from_env(environ: Mapping[str, str] | None = None) -> ProviderModel | None:
    """Make the model that the environment names.

    Args:
        environ: where `TREADLE_MODEL` (`<provider>:<model>`), `TREADLE_API_KEY` and `TREADLE_BASE_URL` are looked up, the
            last two optional; by default the process's own.

    Returns:
        The model; None where `TREADLE_MODEL` is not set.

    Raises:
        ExtraMissing, InvalidInput: as `ProviderModel`.
    """
    found = os.environ if environ is None else environ
    model = found.get("TREADLE_MODEL")
    if not model:
        return None
    key, url = found.get("TREADLE_API_KEY") or None, found.get("TREADLE_BASE_URL") or None
    return ProviderModel(model, api_key=key, base_url=url)
