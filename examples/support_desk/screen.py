"""Owns what the terminal shows of a conversation: words as they come, what tools do, how it ended. Decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treadle.actors import Message

__all__ = ["Screen"]

_HELP: Final = """\
Type what you want. While the desk works: /steer TEXT says something to it, /stop ends what it does.
Also: /help, /quit."""
_SHOWN: Final = 6  # messages of the conversation so far
_ENDED: Final[Mapping[str, str]] = {
    "aborted_by_user": "Stopped.",
    "execution_lost": "The desk was cut off in the middle of its last answer. What was not finished was not done: ask again.",
    "max_side_steps": "The desk gave up: it needed too many steps.",
}


class Screen:
    """Writes to a terminal or a pipe.

    Args:
        out: where to.
        shows_input: write what was typed too, since no terminal does.
    """

    def __init__(self, out: TextIO, *, shows_input: bool) -> None:
        self._out = out
        self._shows_input = shows_input
        self._speaking: str | None = None  # the message whose words stand on the current line
        self._said: dict[str, str] = {}  # what was shown of each message

    def welcome(self, model: str | None) -> None:
        """Say where one is."""
        self._line(f"Loom & Lantern, support desk. {model or 'The embedded clerk'} answers.")
        self._line(_HELP)

    def help(self) -> None:
        """Say what can be typed."""
        self._line(_HELP)

    def history(self, messages: Sequence[Message]) -> None:
        """Show the end of a conversation that goes on."""
        spoken = [one for one in messages if one.content and one.role in ("user", "assistant")]
        for message in spoken[-_SHOWN:]:
            self._line(f"{'you' if message.role == 'user' else 'desk'}> {message.content}")

    def ask(self) -> None:
        """Invite the customer to say something."""
        self._close_line()
        self._write("you> ")

    def typed(self, line: str) -> None:
        """Take note of a line; a terminal has shown it."""
        if self._shows_input:
            self._write(f"{line}\n")

    def approval(self, payload: Mapping[str, object]) -> None:
        """Ask a colleague, who sits at the same terminal here."""
        order, reason = payload.get("refund"), payload.get("reason")
        if isinstance(order, dict):
            self._line(
                f"Approval: refund {order.get('price')} for order {order.get('number')} ({order.get('item')})? Reason: {reason}."
            )
        self._close_line()
        self._write("approve, y or n> ")

    def note(self, text: str) -> None:
        """Say something that is nobody's words."""
        self._line(f"({text})")

    def chunk(self, message_id: str, text: str) -> None:
        """Show words of a message as they come."""
        if self._speaking != message_id:
            self._close_line()
            self._write("desk> ")
            self._speaking = message_id
        self._said[message_id] = self._said.get(message_id, "") + text
        self._write(text)

    def again(self, message_id: str) -> None:
        """Take back what was shown of a message: another attempt begins."""
        self._said.pop(message_id, None)
        self._close_line()
        self.note("once more")

    def message(self, message_id: str, content: str) -> None:
        """Show a whole message, unless its words were all shown as they came."""
        if self._said.pop(message_id, None) != content:
            self._close_line()
            self._write(f"desk> {content}")
        self._speaking = message_id
        self._close_line()

    def tool(self, name: str) -> None:
        """Show that a tool runs."""
        self._line(f"  · {name.replace('_', ' ')}")

    def ended(self, state: str, reason: str | None) -> None:
        """Say how it ended, where that is not plain to see."""
        said = _ENDED.get(reason or "") or (f"The desk failed: {reason}." if state == "failed" else "")
        if said:
            self._line(f"({said})")

    def leave(self) -> None:
        """End the last line."""
        self._write("\n")

    def _line(self, text: str) -> None:
        self._close_line()
        self._write(f"{text}\n")

    def _close_line(self) -> None:
        if self._speaking is not None:
            self._speaking = None
            self._write("\n")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
