"""The policy as YAML, for people and automation."""

from scheduler import yaml_text
from scheduler.core.policy import (
    Policy,
    PolicyError,
    Problem,
    from_document,
    to_document,
)

__all__ = ["Policy", "PolicyError", "Problem", "dump", "from_document", "parse", "to_document"]


def parse(text: str) -> Policy:
    """Read a policy file; missing fields take their defaults.

    Raises PolicyError with every problem found, each with its path, its line and what is
    allowed. Text that isn't readable YAML is one problem.
    """
    try:
        data = yaml_text.load(text)
    except yaml_text.YamlError as error:
        raise PolicyError([Problem(error.path, error.message, error.line)]) from None
    return from_document(data.value, data.lines)


def dump(policy: Policy) -> str:
    """The whole policy, every field present; ``parse`` gives back an equal one."""
    return yaml_text.dump(to_document(policy))
