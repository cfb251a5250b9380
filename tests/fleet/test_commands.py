"""``fleet`` and ``key`` as people and scripts use them."""

import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from metering.core.keys import digest
from metering.models import ApiKey, AuditEntry, Business
from metering.selectors.access import load_access
from tests.fleet.test_fleet_file import EXAMPLE

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a command."""
    out, error = StringIO(), StringIO()
    try:
        call_command(*arguments, stdout=out, stderr=error, no_color=True)
    except SystemExit as end:
        return int(end.code or 0), out.getvalue(), error.getvalue()
    return 0, out.getvalue(), error.getvalue()


@pytest.fixture
def example(tmp_path: Path) -> str:
    path = tmp_path / "fleet.yaml"
    path.write_text(EXAMPLE, encoding="utf-8")
    return str(path)


@pytest.mark.django_db
def test_apply_tells_what_changed(example: str) -> None:
    status, out, error = run("fleet", "apply", example)
    assert (status, error) == (0, "")
    assert out.splitlines()[0] == "added pool gpu-p0"
    assert run("fleet", "apply", example, "--prune") == (0, "nothing to change\n", "")


@pytest.mark.django_db
def test_every_problem_is_one_line_and_the_status_is_1(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(EXAMPLE.replace("slots: 8", "slots: 0").replace("ceiling: P2", "ceiling: P7"))
    status, out, error = run("fleet", "apply", str(path))
    assert (status, out) == (1, "")
    assert error == (
        "replicas[0].slots: must be a whole number of at least 1 and at most 100000; got 0"
        " (line 7)\n"
        "businesses[1].ceiling: must be one of P0, P1, P2; got P7 (line 10)\n"
    )
    assert not Business.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"pools: ["])
def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "fleet.yaml"
    if content is not None:
        path.write_bytes(content)
    status, out, error = run("fleet", "apply", str(path))
    assert (status, out) == (1, "")
    assert error.count("\n") == 1


@pytest.mark.django_db
def test_export_applies_as_it_stands(example: str, tmp_path: Path) -> None:
    run("fleet", "apply", example)
    status, out, error = run("fleet", "export")
    assert (status, error) == (0, "")
    again = tmp_path / "again.yaml"
    again.write_text(out, encoding="utf-8")
    assert run("fleet", "apply", str(again), "--prune") == (0, "nothing to change\n", "")


@pytest.mark.django_db
def test_a_key_is_all_that_create_prints() -> None:
    Business.objects.create(name="doc-qa")
    status, out, error = run("key", "create", "doc-qa", "--name", "app")
    assert (status, error) == (0, "")
    assert re.fullmatch(r"fl_live_[A-Za-z0-9]{43}\n", out)
    assert digest(out.strip(), settings.FAIRLANE_KEY_PEPPER) in load_access().keys
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.source, entry.business) == ("key.create", "command line", "doc-qa")


@pytest.mark.django_db
@pytest.mark.parametrize(
    "arguments",
    [("create", "no-such"), ("list", "no-such"), ("create", "doc-qa", "--name", " ")],
)
def test_what_cannot_be_is_one_line(arguments: tuple[str, ...]) -> None:
    Business.objects.create(name="doc-qa")
    status, out, error = run("key", *arguments)
    assert (status, out) == (1, "")
    assert error.count("\n") == 1
    assert not ApiKey.objects.exists()


@pytest.mark.django_db
def test_keys_are_listed_without_their_secret_and_revoked_by_prefix() -> None:
    Business.objects.create(name="doc-qa")
    key = run("key", "create", "doc-qa")[1].strip()
    status, out, _ = run("key", "list", "doc-qa")
    assert status == 0
    assert out.startswith(key[:12])
    assert key not in out
    assert run("key", "revoke", "doc-qa", key[:12]) == (0, "", "")
    assert "revoked" in run("key", "list", "doc-qa")[1]
    status, _, error = run("key", "revoke", "doc-qa", key[:12])
    assert (status, error) == (1, f"doc-qa has no working key {key[:12]}\n")


def test_a_form_must_be_named() -> None:
    with pytest.raises(CommandError):
        call_command("key")


def test_from_a_shell(fresh_database: str, example: str, tmp_path: Path) -> None:
    environment = {
        "DATABASE_URL": fresh_database,
        "FAIRLANE_DATA_DIR": str(tmp_path / "data"),
        "PATH": "/usr/bin:/bin",
    }

    def manage(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), *arguments],
            env=environment,
            cwd=tmp_path,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    migrated = manage("migrate", "--skip-checks", "--verbosity", "0")
    assert migrated.returncode == 0, migrated.stderr
    applied = manage("fleet", "apply", "-", stdin=EXAMPLE)
    assert (applied.returncode, applied.stderr) == (0, "")
    created = manage("key", "create", "risk-audit")
    assert re.fullmatch(r"fl_live_[A-Za-z0-9]{43}\n", created.stdout)
    assert created.stderr == ""
