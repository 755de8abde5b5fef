"""The seam between the step loop and models, and the models that come with it."""

from .errors import ExtraMissing, ModelError
from .seam import (
    Attachment,
    Delta,
    Finished,
    LanguageModel,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    Reasoning,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolChoice,
    ToolSpec,
    Usage,
)

__all__ = [
    "Attachment",
    "Delta",
    "ExtraMissing",
    "Finished",
    "LanguageModel",
    "ModelError",
    "ModelMessage",
    "ModelRequest",
    "ModelResponse",
    "Reasoning",
    "ReasoningDelta",
    "TextDelta",
    "ToolCall",
    "ToolCallDelta",
    "ToolChoice",
    "ToolSpec",
    "Usage",
]
