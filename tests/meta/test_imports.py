"""Imports point one way, and the cores are pure."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

from .sources import ROOT, modules, name_of, tree

# The cores may not look at a clock, draw a number, read or write anything, or log.
IMPURE = {
    *("asyncio", "logging", "random", "secrets", "time", "threading", "socket", "os", "io"),
    *("pathlib", "subprocess", "concurrent", "multiprocessing", "tempfile", "shutil", "signal"),
}
CORES = {
    "metering/core": ("metering.core",),
    "scheduler/core": ("scheduler.core", "metering.core"),
}


def imported(path: Path) -> list[str]:
    """Absolute names of what a module imports."""
    found = []
    package = list(path.relative_to(ROOT).parent.parts)
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            found.append(".".join([*base, *([node.module] if node.module else [])]))
    return found


def test_contracts_hold() -> None:
    result = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout


def test_contracts_have_no_exceptions() -> None:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = document["tool"]["importlinter"]["contracts"]
    assert contracts[0]["layers"] == ["console", "scheduler", "metering"]
    assert not [contract for contract in contracts if "ignore_imports" in contract]


def test_cores_import_only_the_standard_library_and_cores() -> None:
    wrong = []
    for core, allowed in CORES.items():
        for path in modules(core):
            for name in imported(path):
                top = name.partition(".")[0]
                pure = top in sys.stdlib_module_names and top not in IMPURE
                own = any(name == package or name.startswith(f"{package}.") for package in allowed)
                if not (pure or own):
                    wrong.append(f"{name_of(path)} imports {name}")
    assert not wrong


def test_imports_stand_at_the_top() -> None:
    """An import inside a function hides a cycle."""
    hidden = [
        f"{name_of(path)}:{inner.lineno}"
        for path in modules("metering", "scheduler", "console")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    ]
    assert not hidden
