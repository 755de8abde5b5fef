"""Owns what a `ThreadState` does to messages: read, inject, update, delete, queue, and the hooks around it. Stores nothing."""

from __future__ import annotations

from types import EllipsisType
from typing import TYPE_CHECKING, Final, Literal

from ..actors.reply import Reply
from ..protocol.errors import TreadleError
from ..protocol.ids import check_id
from ..protocol.limits import PAGE_DEFAULT
from ..protocol.messages import OVERHEAD, Draft, Message, check_message_id, draft_message, draft_size, draft_text
from ..protocol.values import check_value
from .state_parts import StateParts
from .tool_calls import draft_injected

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..actors.reads import MessagePage
    from ..protocol.receipts import Receipt
    from ..protocol.values import JsonObject
    from .redaction import Redactor
    from .scene import Scene

__all__ = ["ThreadMessages"]

QUEUE_ROLES: Final = frozenset({"user", "assistant"})
_SHOWN: Final = (
    "id", "role", "content", "name", "silent", "metadata", "attachments", "tool_calls", "tool_call_id", "tool_status",
    "parent_id", "depth",
)  # fmt: skip
_CHANGED: Final = (
    "role",
    "content",
    "name",
    "silent",
    "metadata",
    "attachments",
)  # what a hook may change of a message
_DATA: Final = frozenset({"metadata", "attachments", "tool_calls"})  # JSON data; all else is text or a flag
_DEFAULTS: Final[JsonObject] = {"silent": False, "depth": 0}


class ThreadMessages(StateParts):
    """The part of a `ThreadState` that reads and writes messages (contract D.3, D.4)."""

    __slots__ = ()

    def inject_message(
        self,
        role: str,
        content: str | None = None,
        *,
        silent: bool = False,
        metadata: Mapping[str, object] | None = None,
        attachments: Sequence[Mapping[str, object]] | None = None,
        name: str | None = None,
        tool_calls: str | Sequence[Mapping[str, object]] | None = None,
        tool_call_id: str | None = None,
        tool_status: Literal["success", "error"] | None = None,
    ) -> Reply[Message]:
        """Put a message into history at once; it never starts an execution.

        An assistant message with `tool_calls` opens these calls for the execution: waiting messages join only after each
        has its one result, a `tool` message with its `tool_call_id`. What is open at the end gets an error result. At rest
        there is nobody to answer: calls and results are plain messages there.

        Secrets are taken out. A declared agent's `before_create_message` hooks may change it; one that raises prevents it,
        and its error is this call's.

        Args:
            role: `system`, `user`, `assistant` or `tool`.
            content: at most 1 MiB of UTF-8; may be left out beside tool calls and attachments, and on a tool message.
            silent: kept from people's view, still in history and in what a model reads.
            metadata: JSON data.
            attachments: at most 256 dicts of JSON data; `data` in one is base64 text.
            name: of a tool, on its message.
            tool_calls: of an assistant message: a list of calls, or its JSON text.
            tool_call_id: the call that a tool message answers; without one it closes none.
            tool_status: of a tool message.

        Returns:
            A reply with the message once it is durable. Fails with:
            InvalidInput, LimitExceeded: the message is not one; `secret_in_name` for the id of a call; `call_not_open` where
                the call is answered or unknown.
            ThreadTerminated: at rest, the thread takes no further input.
            ExecutionFenced: the execution no longer owns its thread.
        """
        access = self._access
        try:
            scene = self._declared()
            redactor = None if scene is None else self._redactor()
            draft: Draft | None = None
            size = None
            if redactor is not None:
                self._check_names(tool_call_id=tool_call_id)
                given: JsonObject = {
                    "content": content, "metadata": metadata, "attachments": attachments, "tool_calls": tool_calls, "name": name,
                }  # fmt: skip
                given = _redacted(redactor, given)
                draft = draft_injected(
                    access.new_id(), role, silent=silent, tool_call_id=tool_call_id, tool_status=tool_status, **given
                )
            elif (
                silent is False and metadata is None and attachments is None and name is None
                and tool_calls is None and tool_call_id is None and tool_status is None
            ):  # fmt: skip
                draft = draft_text(access.new_id(), role, content)
                if draft is not None:
                    size = OVERHEAD + len(draft["content"])
            if draft is None:
                draft = draft_injected(
                    access.new_id(), role, content, silent, metadata, attachments, name, tool_calls, tool_call_id, tool_status
                )  # fmt: skip
        except TreadleError as error:
            return Reply.failed(error)
        return access.append(draft, size) if scene is None else self._append_declared(scene, draft)

    def _append_declared(self, scene: Scene, draft: Draft) -> Reply[Message]:
        """Store a message of a declared agent: at the depth of its flow, between its hooks where it has any."""
        flow = scene.flow
        if flow is not None:
            flow.course.open_calls.update(draft.get("calls", ()))
            if flow.depth:
                draft["parent_id"], draft["depth"] = flow.parent_message_id, flow.depth
        hooks = scene.hooks
        if not hooks.has("before_create_message") and not hooks.has("after_create_message"):
            return self._access.append(draft)
        return scene.errands.run_in_line(lambda: self.append_hooked(draft, refusing=True))

    async def append_hooked(self, draft: Draft, *, refusing: bool = False) -> Message:
        """Store a checked message between its create hooks; the step loop's too, for the rows that it writes.

        Args:
            draft: as `draft_injected` makes one; not changed.
            refusing: whether a before hook that raises prevents it; else that is logged.
        """
        hooks = self.scene.hooks
        if hooks.has("before_create_message"):
            shown = _shown(draft)
            changed = await hooks.run("before_create_message", self, shown, refusing=refusing)
            draft = self._redrafted(draft, shown, changed)
        message = await self._access.append(draft)
        if hooks.has("after_create_message"):
            await hooks.run("after_create_message", self, message)
        return message

    async def hook_joined(self, messages: Sequence[Message]) -> list[Message]:
        """Run the create hooks on messages that waited and have joined (contract I.25), and return them as they are then.

        A before hook cannot prevent what joined already; what it changes is written as an update.
        """
        hooks = self.scene.hooks
        joined = list(messages)
        if not hooks.has("before_create_message") and not hooks.has("after_create_message"):
            return joined
        for rank, message in enumerate(joined):
            shown = _shown(message.__dict__)
            changed = await hooks.run("before_create_message", self, shown)
            updates = {key: value for key, value in _as_dict(changed).items() if key in ("content", "metadata")}
            updates = {key: value for key, value in updates.items() if value != shown.get(key)}
            if updates:
                redactor = self._redactor()
                try:
                    updates = updates if redactor is None else _redacted(redactor, updates)
                    joined[rank] = await self._access.update_message(message.id, updates)
                except TreadleError as error:
                    self._note("a before_create_message hook made a message that cannot be stored", _error_data(error))
            await hooks.run("after_create_message", self, joined[rank])
        return joined

    def _redrafted(self, draft: Draft, shown: JsonObject, changed: object) -> Draft:
        """Return the draft as the hooks left it, or the given one where that cannot be stored."""
        fields = _as_dict(changed)
        if fields == shown:
            return draft
        given: JsonObject = {key: fields.get(key) for key in _CHANGED}
        redactor = self._redactor()
        kept = {key: value for key, value in draft.items() if key not in _CHANGED}
        try:
            given = given if redactor is None else _redacted(redactor, given)
            # What calls or answers is who it is: side B's calls, say, stand in a row of role user.
            role = draft["role"] if "tool_calls" in draft or "tool_call_id" in draft else given["role"]
            new = draft_message(
                draft["id"], role, given["content"], silent=given["silent"] is True, metadata=given["metadata"],
                attachments=given["attachments"], name=given["name"], tool_calls=draft.get("tool_calls"),
                tool_call_id=draft.get("tool_call_id"), tool_status=draft.get("tool_status"),
            )  # fmt: skip
        except TreadleError as error:
            self._note("a before_create_message hook made a message that cannot be stored", _error_data(error))
            return draft
        return {**new, **kept}

    def update_message(
        self,
        message_id: str,
        *,
        content: str | EllipsisType | None = ...,
        metadata: Mapping[str, object] | EllipsisType | None = ...,
    ) -> Reply[Message]:
        """Change a message, also one that waits; what is left out stays.

        Args:
            message_id: of any depth.
            content: the new text.
            metadata: merged with what is stored: None as a value takes a key away, None itself all of them.

        Returns:
            A reply with the message as it is then, once that is durable. Fails with:
            MessageNotFound: there is none.
            InvalidInput, LimitExceeded: it would be no message; nothing was changed.
            ExecutionFenced: the execution no longer owns its thread.
        """
        changes: JsonObject = {}
        if content is not ...:
            changes["content"] = content
        if metadata is not ...:
            changes["metadata"] = metadata
        try:
            check_message_id(message_id)
            scene, redactor = self._declared(), self._redactor()
            if redactor is not None:
                changes = _redacted(redactor, changes)
        except TreadleError as error:
            return Reply.failed(error)
        if scene is None:
            return self._access.update_message(message_id, changes)
        hooks = scene.hooks
        if not hooks.has("before_update_message") and not hooks.has("after_update_message"):
            return self._access.update_message(message_id, changes)
        return scene.errands.run_in_line(lambda: self._update_hooked(message_id, changes))

    async def _update_hooked(self, message_id: str, changes: JsonObject) -> Message:
        hooks = self.scene.hooks
        before = _as_dict(await hooks.run("before_update_message", self, message_id, changes))
        redactor, updates = self._redactor(), before
        try:
            updates = before if redactor is None else _redacted(redactor, before)
            message = await self._access.update_message(message_id, updates)
        except TreadleError as error:
            if updates == changes:
                raise
            self._note("a before_update_message hook made an update that cannot be stored", _error_data(error))
            updates = changes
            message = await self._access.update_message(message_id, updates)
        await hooks.run("after_update_message", self, message_id, updates)
        return message

    def delete_message(self, message_id: str) -> Reply[bool]:
        """Take a message out of history, with the results of its calls; one that waits is withdrawn.

        Returns:
            A reply with False where there is none, once it is durable. Fails with:
            InvalidInput: `call_open` or `call_needs_result`: a call would be left without its one result.
            ExecutionFenced: the execution no longer owns its thread.
        """
        try:
            check_message_id(message_id)
        except TreadleError as error:
            return Reply.failed(error)
        return self._access.delete_message(message_id)

    def queue_message(
        self,
        content: str,
        role: str = "user",
        *,
        silent: bool = False,
        metadata: Mapping[str, object] | None = None,
        attachments: Sequence[Mapping[str, object]] | None = None,
        input_id: str | None = None,
    ) -> Reply[Receipt]:
        """Store a message to be read at the next boundary: `checkpoint()`, a model step, a further pass, or the next execution.

        Args:
            content: at most 1 MiB of UTF-8; secrets are taken out.
            role: `user` or `assistant`.
            silent: kept from people's view.
            metadata: JSON data.
            attachments: at most 256 dicts of JSON data; `data` in one is base64 text.
            input_id: makes a repeat harmless: the same id with the same content gets the first receipt.

        Returns:
            A reply with a `queued` receipt once it is durable. Fails with:
            InvalidInput, LimitExceeded: the message or the id is not one, `secret_in_name` for the id, or too much waits.
            IdempotencyConflict: the id was used for other content.
            ThreadTerminated: the thread takes no further input.
            ExecutionFenced: the execution no longer owns its thread.
        """
        access = self._access
        try:
            if input_id is not None:
                input_id = check_id("input_id", input_id)
                self._check_names(input_id=input_id)
            redactor = self._redactor()
            given: JsonObject = {"content": content, "metadata": metadata, "attachments": attachments}
            given = given if redactor is None else _redacted(redactor, given)
            draft = draft_message(access.new_id(), role, roles=QUEUE_ROLES, silent=silent, **given)
        except TreadleError as error:
            return Reply.failed(error)
        return access.queue([draft], draft_size(draft), input_id=input_id)

    def get_messages(
        self,
        limit: int = PAGE_DEFAULT,
        offset: int = 0,
        order: Literal["asc", "desc"] | None = None,
        *,
        include_silent: bool = False,
        max_depth: int = 0,
    ) -> Reply[MessagePage]:
        """Return a page of history; what waits in the inbox is listed after it and counted.

        Args:
            limit: at most so many messages, up to 1,000.
            offset: how many to skip: the oldest with `asc`, else the newest.
            order: of the page: `asc` oldest first, `desc` newest first; None is the newest page, oldest first.
            include_silent: silent messages too.
            max_depth: messages of sub-prompts down to this depth too.

        Returns:
            A reply with `messages`, `total` and `has_more`. Fails with InvalidInput: `invalid_page`.
        """
        return self._access.read_messages(
            limit=limit, offset=offset, order=order, include_silent=include_silent, max_depth=max_depth
        )

    def get_message(self, message_id: str) -> Reply[Message | None]:
        """Return a message by id, at any depth, one that waits included; None where there is none."""
        try:
            check_message_id(message_id)
        except TreadleError as error:
            return Reply.failed(error)
        return self._access.read_message(message_id)


def _shown(fields: Mapping[str, object]) -> JsonObject:
    """Return a message as a hook sees it: a dict with every field."""
    return {key: fields.get(key, _DEFAULTS.get(key)) for key in _SHOWN}


def _redacted(redactor: Redactor, fields: JsonObject) -> JsonObject:
    """Return what was handed in without its secrets; what is no message's field is left to the check that follows.

    Raises:
        InvalidInput, LimitExceeded: it is no JSON data. Checked first: a circle has no end that this could come to.
    """
    return {
        key: redactor.text(value)
        if isinstance(value, str)
        else redactor.data(check_value(value, path=f"$.{key}"))
        if key in _DATA
        else value
        for key, value in fields.items()
    }


def _as_dict(value: object) -> JsonObject:
    assert isinstance(value, dict), value  # the table's own check let nothing else through
    return value


def _error_data(error: TreadleError) -> JsonObject:
    return {"error_type": type(error).__name__, "error": error.message}
