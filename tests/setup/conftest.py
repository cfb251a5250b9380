"""Folders that the database's own user may reach, and a look at file modes."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

collect_ignore = [] if os.geteuid() == 0 else ["test_embedded_postgres_as_root.py"]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """An empty folder that every user may enter, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="fairlane-setup-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
