"""``python -m tests.with_postgres COMMAND...``: run a command beside a database of its own."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from console.embedded_postgres import EmbeddedPostgres


def main(command: list[str]) -> int:
    """The command's exit status. A DATABASE_URL that is set already is used as it is."""
    if os.environ.get("DATABASE_URL"):
        return subprocess.run(command, check=False).returncode
    with tempfile.TemporaryDirectory(prefix="fairlane-check-") as name:
        folder = Path(name)
        # As root the server runs as another user, who must get to its data.
        folder.chmod(0o711)
        postgres = EmbeddedPostgres(folder / "postgres", durable=False)
        environment = {
            **os.environ,
            "DATABASE_URL": postgres.start(),
            "FAIRLANE_DATA_DIR": str(folder / "data"),
        }
        try:
            return subprocess.run(command, env=environment, check=False).returncode
        finally:
            postgres.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
