"""Section ``pages``: the server's time for each page, on many businesses, keys and requests."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from console.embedded_postgres import EmbeddedPostgres

from .machine import BenchError, Cores
from .process import ROOT
from .report import Json, Part, rounded, table

BUSINESSES, KEYS = 1_000, 10_000
# FAIRLANE_LONG_TESTS asks for what the pages are held to; the default takes seconds to fill.
USAGE = 1_000_000 if os.environ.get("FAIRLANE_LONG_TESTS") else 100_000
MOST_MS = 200.0


def measure(rounds: int, places: Cores) -> Part:
    """Milliseconds a page; raises BenchError when one costs more than it may."""
    sys.stderr.write(f"\npages: {BUSINESSES:,} businesses, {KEYS:,} keys, {USAGE:,} usage rows\n")
    with tempfile.TemporaryDirectory(prefix="fairlane-bench-") as name:
        folder = Path(name)
        # As root the database runs as another user, who must get through.
        folder.chmod(0o711)
        postgres = EmbeddedPostgres(folder / "postgres", durable=False)
        postgres.start()
        try:
            figures = _figures(postgres.url, folder / "data", rounds)
        finally:
            postgres.stop()
    rows: list[list[Json]] = [
        [page, each["cpu_ms"], each["median_ms"]] for page, each in figures.items()
    ]
    sys.stdout.write(table(["page", "server CPU ms", "median ms"], rows) + "\n")
    slow = {page: each for page, each in figures.items() if each["cpu_ms"] > MOST_MS}
    if slow:
        raise BenchError(f"over {MOST_MS:.0f} ms: {', '.join(sorted(slow))}")
    return {"pages": rounded(figures)}


def _figures(url: str, data: Path, rounds: int) -> dict[str, dict[str, float]]:
    command = [sys.executable, "-m", "bench.page_times"]
    sizes = [str(each) for each in (BUSINESSES, KEYS, USAGE, max(rounds, 5))]
    done = subprocess.run(
        [*command, *sizes],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url, "FAIRLANE_DATA_DIR": str(data)},
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise BenchError(f"pages: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return found
