"""For people who test their declared agents: script a model, run to rest, look at its requests, replay a recorded thread.

```python
def test_the_desk_looks_an_order_up(runtime):            # the fixture of treadle.actors.testing
    model = ScriptedModel(ToolCall("c1", "find_order", '{"number": "1002"}'), "It is on its way.")
    thread = runtime(with_model(desk, model)).create_thread("desk").result()

    rest = run_to_rest(thread, "Where is 1002?", answers={"approval": {"approved": True}})

    assert (rest.text, rest.calls) == ("It is on its way.", ["find_order"])
    assert_told(model.requests[1], "two reading lamps", role="tool")
    assert_well_formed(model.requests[1])
```
"""

from .recording import Recording
from .replaying import Difference, replay
from .request_checks import assert_not_told, assert_offered, assert_told, assert_well_formed, conversation, system_text
from .resting import Rest, run_to_rest
from .scripted_model import Pause, ScriptedModel, Turn
from .swapping import with_model

__all__ = [
    "Difference",
    "Pause",
    "Recording",
    "Rest",
    "ScriptedModel",
    "Turn",
    "assert_not_told",
    "assert_offered",
    "assert_told",
    "assert_well_formed",
    "conversation",
    "replay",
    "run_to_rest",
    "system_text",
    "with_model",
]
