"""A scenario file: where it is found, and its text as a scenario."""

import json
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from scheduler.core.policy import PolicyError, Problem, from_document

from .reading import Reading
from .scenario import Scenario

BUILT_IN = files(__package__) / "scenarios"


class ScenarioError(ValueError):
    """A scenario that can't be run, with every problem found in it, each with its path."""

    def __init__(self, source: str, problems: list[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{source}: {problem}" for problem in problems))


def built_in() -> list[str]:
    """Names of the scenarios that come with the project."""
    return sorted(item.name[:-5] for item in BUILT_IN.iterdir() if item.name.endswith(".json"))


def load(source: str) -> Scenario:
    """The scenario of a file, or of a built-in name. Raises ScenarioError."""
    if re.fullmatch(r"[a-z0-9-]+", source) and source in built_in():
        return parse((BUILT_IN / f"{source}.json").read_text(encoding="utf-8"), source)
    try:
        text = Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"can't be read ({error}); built in are {', '.join(built_in())}"
        raise ScenarioError(source, [Problem("", message)]) from None
    return parse(text, source)


def parse(text: str, source: str = "scenario") -> Scenario:
    """The scenario of a JSON text. Raises ScenarioError with every problem found."""
    try:
        data: object = json.loads(text)
    except ValueError as error:
        raise ScenarioError(source, [Problem("", f"is not JSON: {error}")]) from None
    reading = Reading(data)
    scenario = reading.scenario()
    problems = reading.problems
    if not problems:
        try:
            policy = from_document(reading.policy_document)
        except PolicyError as error:
            problems += [Problem(f"policy.{p.path}", p.message) for p in error.problems]
        else:
            remarks = (
                *(f"{remark} (ignored)" for remark in reading.remarks),
                *(f"{remark}: all its requests are refused" for remark in reading.unserved),
            )
            return replace(scenario, policy=policy, remarks=remarks)
    raise ScenarioError(source, problems)
