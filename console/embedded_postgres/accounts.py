"""The system user that the server runs as when we are root."""

import os
import pwd
import shutil
import subprocess
from pathlib import Path

from console.processes import Account

from .errors import EmbeddedPostgresError

SERVER_USER = "fairlane"


def account_for(data: Path) -> Account:
    """The owner of a cluster that is there already, else the server's own system user."""
    owner = owner_of(data)
    try:
        entry = pwd.getpwuid(owner) if owner else _server_user()
    except KeyError:
        raise EmbeddedPostgresError(f"{data} belongs to no known user ({owner})") from None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def owner_of(folder: Path) -> int | None:
    """The user id of the folder's owner; None if there is no such folder."""
    try:
        return folder.stat().st_uid
    except FileNotFoundError:
        return None
    except PermissionError:
        raise EmbeddedPostgresError(f"{folder} cannot be reached by this user") from None


def name_of(uid: int) -> str:
    """The user's name, or the number where the system knows none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def succeeds(account: Account, command: list[str]) -> bool:
    """Whether ``command`` ends well as that user: the kernel knows rights better than we do."""
    try:
        result = subprocess.run(
            command,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            user=account.uid,
            group=account.gid,
            extra_groups=[],
        )
    except OSError:
        return False
    return result.returncode == 0


def enters(account: Account, folder: Path) -> bool:
    """Whether that user may enter ``folder``, every folder above it included."""
    return succeeds(account, ["/bin/sh", "-c", 'cd -- "$1"', "sh", os.fspath(folder)])


def _server_user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(SERVER_USER)
    except KeyError:
        _add_server_user()
    try:
        return pwd.getpwnam(SERVER_USER)
    except KeyError:
        raise EmbeddedPostgresError(
            f"PostgreSQL does not run as root, and no system user {SERVER_USER!r} could be added: "
            "add one, start as an ordinary user, or set DATABASE_URL"
        ) from None


def _add_server_user() -> None:
    shell = "/usr/sbin/nologin" if Path("/usr/sbin/nologin").exists() else "/bin/false"
    commands = (
        ["useradd", "--system", "--user-group", "--no-create-home", "--shell", shell, SERVER_USER],
        ["adduser", "-S", "-D", "-H", "-s", shell, SERVER_USER],
    )
    for command in commands:
        if shutil.which(command[0]):
            # Another start may be adding the same user: all that counts is that it is there.
            subprocess.run(command, capture_output=True, check=False)
            return
