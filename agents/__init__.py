"""What runs inside an execution: agents, coded or declared, and the `ThreadState` that their functions get."""

from .agent import FunctionAgent, InvalidReturn, agent
from .agent_definition import Agent
from .definitions import DefinitionNotFound, Definitions, Offered
from .environment import Environment, EnvValue, VariableNotFound
from .execution_state import ExecutionState
from .handler import Handler, handler
from .hook import Hook, hook
from .hooks import BlockRun
from .loading import load_agents
from .model_definition import Model
from .models.seam import Reasoning
from .prompt import EnvPart, IncludePart, Prompt, PromptTool, SubPrompt, TextPart
from .side import Binding, Side
from .thread_state import ThreadAccess, ThreadState
from .tool import Tool, ToolArgumentsInvalid, tool
from .tool_result import ToolResult
from .variable import Variable

__all__ = [
    "Agent",
    "Binding",
    "BlockRun",
    "DefinitionNotFound",
    "Definitions",
    "EnvPart",
    "EnvValue",
    "Environment",
    "ExecutionState",
    "FunctionAgent",
    "Handler",
    "Hook",
    "IncludePart",
    "InvalidReturn",
    "Model",
    "Offered",
    "Prompt",
    "PromptTool",
    "Reasoning",
    "Side",
    "SubPrompt",
    "TextPart",
    "ThreadAccess",
    "ThreadState",
    "Tool",
    "ToolArgumentsInvalid",
    "ToolResult",
    "Variable",
    "VariableNotFound",
    "agent",
    "handler",
    "hook",
    "load_agents",
    "tool",
]
