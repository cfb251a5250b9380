"""What tests read in answers and in the gateway's view of its replicas."""

import json

from .harness import Gate
from .stub import DONE, delta

# What the stub's polite answer looks like as a stream.
FINISHED = b"".join([delta("hel"), delta("lo"), delta(None, finish="stop"), DONE])


def states(gateway: Gate) -> dict[str, str]:
    """Replicas' states by name."""
    return {name: watch.state for name, watch in gateway.runtime.health.watches.items()}


def in_band_error(body: bytes) -> dict[str, object]:
    """The error in a stream's last frame: nothing after it, no [DONE], no finish reason."""
    assert DONE not in body
    assert b'"finish_reason": "' not in body
    frames = [frame for frame in body.split(b"\n\n") if frame]
    assert [b'"error"' in frame for frame in frames].count(True) == 1
    found: dict[str, object] = json.loads(frames[-1].removeprefix(b"data: "))["error"]
    assert found.keys() == {"message", "type", "param", "code"}
    return found
