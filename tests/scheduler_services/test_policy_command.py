"""``policy export``, ``policy import`` and ``policy check`` on the command line."""

import io
import sys
from pathlib import Path

import pytest
from django.core.management import call_command

from metering.models import AuditEntry
from scheduler.core.policy import Policy, to_document
from scheduler.models import PolicyVersion, Pool
from scheduler.policy_file import dump, parse
from scheduler.selectors.policy import load_policy

pytestmark = pytest.mark.django_db

DATA = Path(__file__).parents[1] / "data"
FRAGMENT = str(DATA / "policy-fragment.yaml")
Output = pytest.CaptureFixture[str]


def run(*words: str) -> int:
    """Run the command and return its exit status."""
    try:
        call_command("policy", *words)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.fixture
def pools() -> None:
    Pool.objects.create(name="gpu-p0", kind=Pool.Kind.DEDICATED, lanes=["P0"])
    Pool.objects.create(name="gpu-elastic", lanes=["P0", "P1", "P2"])


def test_the_published_fragment_imports_and_exports(pools: None, capsys: Output) -> None:
    assert run("import", FRAGMENT, "--activate", "--reason", "first rules") == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.splitlines() == [
        "policy 1 saved; against the defaults:",
        "  scheduler.queues.P0.dedicated_pool: null -> gpu-p0",
        "  scheduler.queues.P1.shared_pool: null -> gpu-elastic",
        "  scheduler.queues.P2.shared_pool: null -> gpu-elastic",
        "policy 1 is active",
    ]
    assert load_policy()[0] == 1
    assert run("export") == 0
    text = capsys.readouterr().out
    assert parse(text) == load_policy()[1] == parse(Path(FRAGMENT).read_text(encoding="utf-8"))
    assert set(AuditEntry.objects.values_list("source", "data__reason")) == {
        ("command line", "first rules")
    }


def test_an_export_of_nothing_is_the_defaults(capsys: Output) -> None:
    assert run("export") == 0
    assert capsys.readouterr().out == dump(Policy())


def test_one_version_by_its_number(
    pools: None, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"scheduler: {mode: fifo}")))
    assert run("import", "-") == 0
    assert run("import", FRAGMENT, "--activate") == 0
    capsys.readouterr()
    assert run("export", "--version", "1") == 0
    assert parse(capsys.readouterr().out).mode == "fifo"
    assert run("export", "--version", "3") == 1
    assert capsys.readouterr().err == "there is no policy 3\n"


def test_an_unknown_pool_warns_at_import_and_refuses_at_activation(capsys: Output) -> None:
    assert run("import", FRAGMENT) == 0
    said = capsys.readouterr()
    assert said.err.splitlines()[0] == (
        "warning: scheduler.queues.P0.dedicated_pool: no pool gpu-p0 in the fleet; there are none"
    )
    assert len(said.err.splitlines()) == 3
    assert run("import", FRAGMENT, "--activate") == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert [line.partition(":")[0] for line in said.err.splitlines()] == [
        "scheduler.queues.P0.dedicated_pool",
        "scheduler.queues.P1.shared_pool",
        "scheduler.queues.P2.shared_pool",
    ]
    assert PolicyVersion.objects.count() == 1
    assert load_policy() == (0, Policy())


@pytest.mark.parametrize("form", ["check", "import"])
def test_every_problem_is_one_line_on_standard_error(
    form: str, tmp_path: Path, capsys: Output
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text('scheduler:\n  mod: fifo\n  queues: {P2: {max_occupy: "130%"}}\n')
    assert run(form, str(file)) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert [line.partition(":")[0] for line in said.err.splitlines()] == [
        "scheduler.mod",
        "scheduler.queues.P2.max_occupy",
    ]
    assert not PolicyVersion.objects.exists()


def test_a_check_says_that_a_file_is_well(capsys: Output) -> None:
    assert run("check", FRAGMENT) == 0
    assert capsys.readouterr().out == f"{FRAGMENT}: no problems\n"
    assert not PolicyVersion.objects.exists()


def test_files_that_can_not_be_read(tmp_path: Path, capsys: Output) -> None:
    missing = tmp_path / "none.yaml"
    assert run("check", str(missing)) == 1
    assert capsys.readouterr().err == f"cannot read {missing}: No such file or directory\n"
    missing.write_bytes(b"\xff\xfe\x00")
    assert run("check", str(missing)) == 1
    assert capsys.readouterr().err == f"{missing} is not UTF-8 text\n"


def test_an_unreadable_active_policy_does_not_stop_the_import_that_mends_it(
    pools: None, capsys: Output
) -> None:
    PolicyVersion.objects.create(version=1, active=True, document={"scheduler": {"moods": 1}})
    assert run("import", FRAGMENT, "--activate") == 0
    assert "warning: the active policy can't be read: scheduler.moods" in capsys.readouterr().err
    assert load_policy()[0] == 2


def test_a_version_with_removed_fields_is_exported_without_them(capsys: Output) -> None:
    document = to_document(Policy())
    document["scheduler"]["backpressure"]["scale"]["by_load"] = True  # type: ignore[index]
    PolicyVersion.objects.create(version=1, active=True, document=document)
    assert load_policy() == (1, Policy())
    assert run("export") == 0
    assert capsys.readouterr().out == dump(Policy())
