"""``python -m bench [--out DIR] [--rounds N] [--only SECTION]``."""

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from . import chat, core, full_cards, gateway, live, metering, pages, placement, probes, resume
from .machine import BenchError, Cores, cores, require_programs
from .report import Part

SECTIONS: dict[str, Callable[[int, Cores], Part]] = {
    "gateway": gateway.measure,
    "live": live.measure,
    "metering": metering.measure,
    "resume": resume.measure,
    "core": core.measure,
    "pages": pages.measure,
    "placement": placement.measure,
    "chat": chat.measure,
    "incident": full_cards.measure,
    "probes": probes.measure,
}
# Rounds take minutes here, so that there are fewer unless more are asked for.
FEW_ROUNDS = {"placement": 3, "chat": 3, "incident": 3}
ROUNDS = 5
# These run on Python and the project alone.
PLAIN = {"core", "pages"}


def main() -> int:
    """Run the sections asked for; 0, or 1 with one line when one could not be run."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--out", type=Path, help="folder to write bench.json to")
    parser.add_argument("--rounds", type=int, help="rounds a peer (5; 3 in long sections)")
    parser.add_argument("--only", choices=SECTIONS, help="one section alone")
    options = parser.parse_args()
    try:
        document = run([options.only] if options.only else list(SECTIONS), options.rounds)
    except BenchError as error:
        sys.stderr.write(f"\nbench: {error}\n")
        return 1
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        text = json.dumps(document, indent=1, sort_keys=True) + "\n"
        (options.out / "bench.json").write_text(text, encoding="utf-8")
    return 0


def run(sections: list[str], rounds: int | None) -> Part:
    """The sections' figures in one document, as bench.json has them."""
    places = cores()
    if not PLAIN.issuperset(sections):
        require_programs()
    if places.shared:
        sys.stderr.write("bench: there is one core only: load and gateway share it\n")
    # Everything started from here runs beside what is measured, not on its core.
    os.sched_setaffinity(0, {places.load})
    document: Part = {}
    for name in sections:
        count = rounds or FEW_ROUNDS.get(name, ROUNDS)
        for heading, figures in SECTIONS[name](count, places).items():
            document.setdefault(heading, {}).update(figures)
    return document


if __name__ == "__main__":
    sys.exit(main())
