"""Requests per second and latency, as wrk measures them."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .machine import BenchError, pinned

BODY = json.dumps(
    {
        "model": "chat",
        "messages": [
            {"role": "system", "content": "You are a careful auditor."},
            {"role": "user", "content": "Does the quarterly report show what we look for?"},
        ],
        "temperature": 0.2,
        "max_tokens": 64,
    }
)
SCRIPT = """
wrk.method = "POST"
wrk.path = "/v1/chat/completions"
wrk.body = [[{body}]]
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer {key}"
function done(summary, latency, requests)
    local errors = summary.errors
    io.write(string.format(
        '\\nRESULT {{"requests":%d,"us":%d,"p50":%d,"p99":%d,"failed":%d}}\\n',
        summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
        errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
"""


@dataclass(frozen=True, slots=True)
class Load:
    """One run of wrk: answers, how many of them a second, and latencies in ms."""

    requests: int
    rps: float
    p50_ms: float
    p99_ms: float


def write_script(folder: Path, key: str) -> Path:
    """The script that makes wrk send chat calls with this key."""
    path = folder / "chat.lua"
    path.write_text(SCRIPT.format(body=BODY, key=key), encoding="utf-8")
    return path


def run(url: str, script: Path, *, connections: int, seconds: int, core: int) -> Load:
    """Load a server. Raises BenchError if any answer was not a success."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s"]
    command += ["-s", str(script), url]
    done = subprocess.run(pinned(command, core), capture_output=True, text=True, check=False)
    line = next((text for text in done.stdout.splitlines() if text.startswith("RESULT ")), None)
    if line is None:
        said = done.stderr.strip() or done.stdout.strip()
        raise BenchError(f"wrk at {url} ended with {done.returncode}: {said}")
    found: dict[str, int] = json.loads(line.removeprefix("RESULT "))
    if found["failed"] or not found["requests"]:
        raise BenchError(f"{url}: {found['failed']} of {found['requests']} requests failed")
    return Load(
        requests=found["requests"],
        rps=found["requests"] / (found["us"] / 1e6),
        p50_ms=found["p50"] / 1000,
        p99_ms=found["p99"] / 1000,
    )
