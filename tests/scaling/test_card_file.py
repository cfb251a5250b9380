"""The file of cards: read strictly, and it names no commands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.scaling.card_file import CardsError, parse_cards
from scheduler.scaling.cards import CardSpec
from scheduler.scaling.processes import ROOT, command

WHOLE = """
cards:
  - name: spare-1
    pool: gpu-elastic
    run: emulator
    slots: 8
    gpus: 0.5
    kv_tokens: 9000
    models: {chat: org/Model-7B, small: org/Small}
    arguments: ["--step-base-ms", "20"]
  - {name: spare-2, pool: gpu-elastic, run: llama, slots: 2, models: {chat: smollm2}}
"""


def test_it_says_what_each_card_becomes() -> None:
    first, second = parse_cards(WHOLE)
    assert first == CardSpec(
        "spare-1",
        "gpu-elastic",
        "emulator",
        8,
        0.5,
        9000,
        {"chat": "org/Model-7B", "small": "org/Small"},
        ("--step-base-ms", "20"),
    )
    assert command(first)[:3] == [sys.executable, "-m", "scheduler.emulator"]
    assert command(first)[-8:] == [
        *("--model", "org/Model-7B", "--model", "org/Small"),
        *("--kv-tokens", "9000", "--step-base-ms", "20"),
    ]
    assert command(second)[1:] == [
        *("-m", "scheduler.llama", "--port", "0", "--slots", "2", "--alias", "smollm2"),
    ]
    assert parse_cards("") == parse_cards("cards: []") == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("card: []", "did you mean cards?"),
        ("cards: [{name: a, pool: p, run: bash, models: {m: m}}]", "cards[0].run"),
        ("cards: [{name: a, pool: p, run: emulator}]", "cards[0].models"),
        ("cards: [{name: a, pool: p, run: emulator, models: {m: m}, slots: 0}]", "cards[0].slots"),
        ("cards: [{name: a, pool: p, run: emulator, models: {m: m}, x: 1}]", "cards[0].x"),
        ("cards: [{name: a, pool: p, run: llama, models: {m: '-m'}}]", "cards[0].models.m"),
        (
            "cards: [{name: a, pool: p, run: llama, models: {m: m}, arguments: rm}]",
            "cards[0].arguments",
        ),
        ("cards: [", "line"),
        ("cards:\n" + 2 * "- {name: a, pool: p, run: llama, models: {m: m}}\n", "a stands twice"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(text: str, says: str) -> None:
    with pytest.raises(CardsError) as caught:
        parse_cards(text)
    assert says in str(caught.value)


@pytest.mark.parametrize("text", [None, "cards: [{name: a, pool: p, run: bash}]"])
def test_a_file_that_cannot_be_taken_stops_the_start_with_one_line(
    tmp_path: Path, text: str | None
) -> None:
    file = tmp_path / "cards.yaml"
    if text is not None:
        file.write_text(text)
    done = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env={**os.environ, "FAIRLANE_CARDS": str(file)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("fairlane: FAIRLANE_CARDS: ")
