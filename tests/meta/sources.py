"""The project's own files, as the tests about them see them."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("metering", "scheduler", "console", "tests", "bench")
# What is installed, built or written at run time; never part of a clone.
NOT_OURS = {
    *(".git", ".venv", "node_modules", "var", "build", "__pycache__"),
    *(".hypothesis", ".import_linter_cache", ".mypy_cache", ".pytest_cache", ".ruff_cache"),
}


def files() -> Iterator[Path]:
    """Every file of the project."""
    waiting = [ROOT]
    while waiting:
        for path in sorted(waiting.pop().iterdir()):
            if path.name in NOT_OURS or path.is_symlink():
                continue
            if path.is_dir():
                waiting.append(path)
            else:
                yield path


def modules(*packages: str) -> list[Path]:
    """The Python modules of ``packages``, of all when none is named."""
    return [
        path
        for package in packages or PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if not NOT_OURS & set(path.parts)
    ]


@cache
def tree(path: Path) -> ast.Module:
    """The parsed module."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def name_of(path: Path) -> str:
    """A path as people write it."""
    return str(path.relative_to(ROOT))
