"""What only root meets: the database runs as another user. Collected when the tests run as root."""

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from console.embedded_postgres import EmbeddedPostgres, EmbeddedPostgresError, placement

from .support import modes, run_sql

ROOT = Path(__file__).resolve().parents[2]


def copy_programs(target: Path) -> None:
    wheel = placement._wheel()
    unneeded = shutil.ignore_patterns("include", "*.a", "pginstall")
    for name in (placement.PACKAGE, f"{placement.PACKAGE}.libs"):
        shutil.copytree(wheel / name, target / name, symlinks=True, ignore=unneeded)


@pytest.fixture
def shared_root(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for /var/lib/fairlane."""
    shared = open_folder / "shared"
    monkeypatch.setattr(placement, "SHARED_ROOT", shared)
    return shared


def test_a_private_home_stays_private(open_folder: Path, shared_root: Path) -> None:
    home = open_folder / "home"
    home.mkdir(mode=0o700)
    before = modes(home)
    postgres = EmbeddedPostgres(home / "project" / "var" / "postgres", durable=False)
    url = postgres.start()
    run_sql(url, "CREATE TABLE kept ()")
    postgres.stop()
    assert modes(home) == before
    assert shared_root in postgres.placement.cluster.parents

    again = EmbeddedPostgres(home / "project" / "var" / "postgres", durable=False)
    assert run_sql(again.start(), "SELECT * FROM kept") == []
    again.stop()


def test_programs_in_a_private_home_are_copied(
    open_folder: Path, shared_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = open_folder / "home"
    copy_programs(home)
    home.chmod(0o700)
    monkeypatch.setattr(placement, "_wheel", lambda: home)
    postgres = EmbeddedPostgres(open_folder / "data" / "postgres", durable=False)
    run_sql(postgres.start(), "SELECT 1")
    postgres.stop()
    assert shared_root in postgres.placement.programs.parents
    assert home.stat().st_mode & 0o777 == 0o700


def test_data_that_went_out_of_reach_is_not_begun_anew(
    open_folder: Path, shared_root: Path
) -> None:
    home = open_folder / "home"
    home.mkdir()
    postgres = EmbeddedPostgres(home / "postgres", durable=False)
    postgres.start()
    postgres.stop()
    home.chmod(0o700)
    with pytest.raises(EmbeddedPostgresError, match="may no longer enter"):
        EmbeddedPostgres(home / "postgres").start()


# Modules are loaded as root, since an ordinary user may not reach root's Python.
ORDINARY = """
import encodings.idna, os, sys
from pathlib import Path
import psycopg
from console.embedded_postgres import EmbeddedPostgres, placement
placement._wheel = lambda: Path(sys.argv[2])
os.setgroups([]); os.setgid(int(sys.argv[4])); os.setuid(int(sys.argv[3]))
postgres = EmbeddedPostgres(Path(sys.argv[1]), durable=False)
for _ in range(2):
    with psycopg.connect(postgres.start()) as connection:
        print(connection.execute("SELECT 42").fetchone()[0])
    postgres.stop()
assert postgres.placement.account is None
"""


def test_runs_for_an_ordinary_user(open_folder: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    copy_programs(open_folder)
    home = open_folder / "home"
    home.mkdir(mode=0o700)
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    result = subprocess.run(
        [
            *(sys.executable, "-c", ORDINARY, home / "var" / "postgres", open_folder),
            *(str(nobody.pw_uid), str(nobody.pw_gid)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["42", "42"]
    assert (home / "var" / "postgres").stat().st_uid == nobody.pw_uid
