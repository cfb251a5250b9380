"""The command: what it writes, prints and refuses."""

import io
import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from scheduler.simulation.__main__ import main
from scheduler.simulation.progress import Progress
from scheduler.simulation.schedulers import SCHEDULERS, fitting

from .small import FIXED, TALK, scenario

FIGURES = {
    "p0_p50_ms",
    "p0_p95_ms",
    "p0_p99_ms",
    "sla_miss_ratio",
    "peak_throughput_qps",
    "starved_ratio",
    "success_ratio",
    "gpu_util_ratio",
    "gpu_util_peak_ratio",
    "yield_per_slot_s",
    "cached_prompt_ratio",
    "models",
    "preemptions",
    "wasted_ratio",
    "unfinished",
    "timeouts",
    "p0_wait_p99_ms",
    "lanes",
}


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A scenario file outside the project."""
    path = tmp_path / "own.json"
    path.write_text(json.dumps(FIXED), encoding="utf-8")
    return path


def test_results_have_the_contract_s_form(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results"
    assert main(["--scenario", str(own), "--seed", "3", "--out", str(out), "--processes", "1"]) == 0
    found = json.loads((out / "small.json").read_text(encoding="utf-8"))
    assert found["scenario"] == "small"
    assert found["seed"] == 3
    assert list(found["schedulers"]) == [
        "fairlane",
        "fixed-priority",
        "fifo",
        "priority-heap",
        "class-floors",
        "least-loaded",
        "prefix-affinity",
    ]
    for run in found["schedulers"].values():
        assert run.keys() >= FIGURES | {"phases", "businesses"}
        assert run["models"].keys() == {"detector", "speech"}
        assert run["lanes"].keys() == {"P0", "P1", "P2"}
        for lane in run["lanes"].values():
            assert lane.keys() >= {"success_ratio", "timeouts", "cached_prompt_ratio"}
        assert run["businesses"]["shop"].keys() == {
            "sla_met_ratio",
            "success_ratio",
            "quota_refused_ratio",
        }
        for phase in run["phases"]:
            assert phase.keys() >= FIGURES | {"from_s", "to_s"}
    printed = capsys.readouterr().out
    assert "small: " in printed
    assert all(name in printed for name in fitting(scenario(FIXED)))


def test_conversations_are_also_run_pinned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "talk.json"
    path.write_text(json.dumps(TALK), encoding="utf-8")
    assert main(["--scenario", str(path), "--out", str(tmp_path), "--processes", "1"]) == 0
    found = json.loads((tmp_path / "talk.json").read_text(encoding="utf-8"))["schedulers"]
    assert list(found) == list(SCHEDULERS)
    for run in found.values():
        assert run["cached_prompt_ratio"] > 0
        assert run["lanes"]["P1"]["cached_prompt_ratio"] > 0
    assert "prompts cached" in capsys.readouterr().out


def test_the_chart_is_readable_svg(own: Path, tmp_path: Path) -> None:
    arguments = ["--scenario", str(own), "--only", "fifo,fairlane", "--out", str(tmp_path)]
    assert main([*arguments, "--processes", "1"]) == 0
    root = ET.fromstring((tmp_path / "small.svg").read_text(encoding="utf-8"))
    assert root.tag.endswith("svg")
    lines = [item for item in root.iter() if item.tag.endswith("polyline")]
    assert len(lines) == 3 * 2


def test_processes_change_no_figure(own: Path, tmp_path: Path) -> None:
    for processes in ("1", "2"):
        arguments = ["--scenario", str(own), "--only", "fifo,fixed-priority"]
        arguments += ["--out", str(tmp_path / processes), "--processes", processes]
        assert main(arguments) == 0
    one, two = ((tmp_path / name / "small.json").read_bytes() for name in ("1", "2"))
    assert one == two


def test_what_is_wrong_with_a_file_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({**FIXED, "duration_s": -1}), encoding="utf-8")
    assert main(["--scenario", str(path)]) == 2
    assert "duration_s: must be a number" in capsys.readouterr().err


def test_an_unknown_scheduler_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "best"])
    assert "best is none of fairlane" in capsys.readouterr().err


def test_the_experiment_needs_no_framework() -> None:
    code = "import sys, scheduler.simulation.__main__; print(sorted(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name in ("django", "asyncio", "yaml", "msgspec"):
        assert f"'{name}'" not in found.stdout


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_only() -> None:
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        with Progress(stream) as progress:
            progress(0.5)
    assert " 50%" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert not file.getvalue()
