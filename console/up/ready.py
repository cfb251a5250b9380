"""Waiting until what was started answers."""

import time
from collections.abc import Callable

import httpx

from .children import Children
from .errors import UpError
from .signals import Signals

READY_DEADLINE_S = 90.0
ANSWER_DEADLINE_S = 60.0
POLL_S = 0.1

Ask = Callable[[httpx.Client], httpx.Response]


class Waiter:
    """Polls addresses while looking after the children; a wish to stop ends every wait early."""

    def __init__(self, base_url: str, signals: Signals, children: Children) -> None:
        self._base_url = base_url
        self._signals = signals
        self._children = children

    def ready(self) -> None:
        """Until /readyz is 200; UpError when it does not come to that."""
        self._until(READY_DEADLINE_S, "/readyz", lambda client: client.get("/readyz"))

    def answered(self, key: str, model: str) -> None:
        """Until a replica has answered a request of one token for ``model``."""
        body = {
            "model": model,
            "messages": [{"role": "user", "content": "hello"}],
            "max_tokens": 1,
        }
        headers = {"Authorization": f"Bearer {key}"}
        self._until(
            ANSWER_DEADLINE_S,
            f"model {model}",
            lambda client: client.post("/v1/chat/completions", json=body, headers=headers),
        )

    def _until(self, deadline_s: float, what: str, ask: Ask) -> None:
        deadline = time.monotonic() + deadline_s
        problem = "no answer"
        with httpx.Client(base_url=self._base_url, timeout=10.0, trust_env=False) as client:
            while not self._signals.stopping:
                self._children.look()
                try:
                    answer = ask(client)
                    if answer.status_code == httpx.codes.OK:
                        return
                    problem = f"status {answer.status_code}: {answer.text[:200]}"
                except httpx.HTTPError as error:
                    problem = str(error) or type(error).__name__
                if time.monotonic() > deadline:
                    raise UpError(f"{what} is not ready after {deadline_s:.0f} s ({problem})")
                self._signals.wait(POLL_S)
