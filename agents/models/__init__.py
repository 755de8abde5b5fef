"""The seam between the step loop and models, and the models that come with it."""

from .calling import ResolvedModel, call
from .collecting import Collector, collect
from .errors import ExtraMissing, ModelError
from .function_model import FunctionModel
from .provider import ProviderModel, model_from_env
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
    "Collector",
    "Delta",
    "ExtraMissing",
    "Finished",
    "FunctionModel",
    "LanguageModel",
    "ModelError",
    "ModelMessage",
    "ModelRequest",
    "ModelResponse",
    "ProviderModel",
    "Reasoning",
    "ReasoningDelta",
    "ResolvedModel",
    "TextDelta",
    "ToolCall",
    "ToolCallDelta",
    "ToolChoice",
    "ToolSpec",
    "Usage",
    "call",
    "collect",
    "model_from_env",
]
