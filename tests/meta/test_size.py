"""Modules and functions that fit into a head."""

import ast
from statistics import median

from .sources import modules, name_of, tree

MODULE_LINES = 400
MEDIAN_LINES = 150
FUNCTION_LINES = 50


def lines(path_text: str) -> int:
    return path_text.count("\n")


def test_modules_are_short() -> None:
    sizes = {name_of(path): lines(path.read_text(encoding="utf-8")) for path in modules()}
    assert not {name: size for name, size in sizes.items() if size > MODULE_LINES}
    assert median(size for size in sizes.values() if size) <= MEDIAN_LINES


def test_functions_are_short() -> None:
    long = {}
    for path in modules("metering", "scheduler", "console"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                size = (node.end_lineno or node.lineno) - node.lineno + 1
                if size > FUNCTION_LINES:
                    long[f"{name_of(path)}:{node.lineno} {node.name}"] = size
    assert not long
