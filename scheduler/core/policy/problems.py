"""What is wrong with a policy, field by field."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not allowed: where, and what is allowed there.

    ``path`` is the field's, such as ``scheduler.queues.P2.max_occupy``, or empty where the
    text could not be read at all; ``line`` counts from 1 in the file, where there is one.
    """

    path: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        """One line for people."""
        if not self.path:
            return self.message if self.line is None else f"line {self.line}: {self.message}"
        where = "" if self.line is None else f" (line {self.line})"
        return f"{self.path}: {self.message}{where}"


class PolicyError(ValueError):
    """A policy that can't be taken, with every problem found in it, at least one."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    @property
    def path(self) -> str:
        """The path of the first problem."""
        return self.problems[0].path
