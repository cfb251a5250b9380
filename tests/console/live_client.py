"""What the page's script does with messages, in Python: the browser test holds the two equal."""

import json
from typing import Any

State = dict[str, Any]


def apply_message(state: State | None, message: State) -> State | None:
    """The state after ``message``; None where only a fresh snapshot helps."""
    if message["type"] == "snapshot":
        return {name: value for name, value in message.items() if name != "type"}
    if state is None or state["epoch"] != message["epoch"]:
        return None
    if message["seq"] <= state["seq"]:
        return state
    if message["since"] != state["seq"]:
        return None
    first = message["points"][0][0] if message["points"] else float("inf")
    edge = message["at"] - message["at"] % state["step_ms"] - state["span_ms"] + state["step_ms"]
    points = [point for point in state["points"] if point[0] < first] + message["points"]
    return state | {
        "seq": message["seq"],
        "at": message["at"],
        "stale": False,
        "now": message["now"],
        "points": [point for point in points if point[0] >= edge],
        "feed": (state["feed"] + message["feed"])[-state["feed_keep"] :],
    }


def decoded(text: str) -> State:
    message = json.loads(text)
    assert isinstance(message, dict)
    return message


def fresh(text: str) -> State:
    """The state that a snapshot alone gives."""
    state = apply_message(None, decoded(text))
    assert state is not None
    return state
