"""Records: what is told to the core and what it says, made many times for each request."""

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """A dataclass with slots that the type checker holds to be frozen.

    It is not while the program runs: freezing makes each of them three times as dear to make.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
