"""The file ``demo.json``: what a program needs to use the demo."""

import os
from pathlib import Path

import msgspec


class Login(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A person of the demo."""

    username: str
    password: str


class DemoRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``logins`` by role, ``keys`` by business in the fleet file's order."""

    console_url: str
    gateway_url: str
    logins: dict[str, Login]
    keys: dict[str, str]


def read_record(path: Path) -> DemoRecord | None:
    """The record in ``path``; None where there is none or it is no such record."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=DemoRecord)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def write_record(path: Path, record: DemoRecord) -> None:
    """Replace ``path`` as a whole; readable by its owner only, from its first byte on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
    draft.replace(path)
