"""Owns the errors of asking a model: what failed, and whether asking again may help. Decides no retry itself."""

from __future__ import annotations

from typing import cast

from ...protocol.errors import CallerError, TreadleError

__all__ = ["ExtraMissing", "ModelError"]


class ModelError(TreadleError):
    """A model gave no answer that can be used; `details` has what the attributes have, under the same names.

    Attributes:
        model: which one was asked.
        status: the provider's HTTP status, None where there was none.
        retry_after: seconds that the provider asks to wait, None where it says nothing.
        retryable: whether the same request may succeed at the same model.
        stalled: it went silent; asking the next model is better than waiting as long again.
    """

    code = "model_error"

    def __init__(
        self, message: str, *, model: str, status: int | None = None, retry_after: float | None = None, retryable: bool = False,
        stalled: bool = False, **details: object,
    ) -> None:  # fmt: skip
        # All in `details`, which is what survives a process boundary.
        super().__init__(
            message,
            model=model,
            status=status,
            retry_after=retry_after,
            retryable=retryable,
            stalled=stalled,
            **details,
        )

    @property
    def model(self) -> str:
        """Which model was asked."""
        return cast("str", self.details["model"])

    @property
    def status(self) -> int | None:
        """The provider's HTTP status."""
        return cast("int | None", self.details["status"])

    @property
    def retry_after(self) -> float | None:
        """Seconds that the provider asks to wait."""
        return cast("float | None", self.details["retry_after"])

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed at the same model."""
        return cast("bool", self.details["retryable"])

    @property
    def stalled(self) -> bool:
        """Whether it went silent."""
        return cast("bool", self.details["stalled"])


class ExtraMissing(CallerError):
    """Something needs packages that come with an extra; `details` has `extra` and the `missing` module."""

    code = "extra_missing"
