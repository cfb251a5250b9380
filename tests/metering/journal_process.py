"""A process with a journal, to be killed: ``journal_process.py FOLDER``.

Reads commands, a line each: ``append N`` appends N rows and prints their ids on one line;
``flood`` appends about a thousand rows a second, printing the id and the time (monotonic, s)
after each, until the process ends; ``pending`` prints the number; ``close`` ends well.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.config.settings")
django.setup()

from metering.journal import Journal  # noqa: E402 - needs Django
from tests.metering.helpers import usage_row  # noqa: E402


def main() -> None:
    journal = Journal(Path(sys.argv[1]))
    journal.start()
    print("ready", flush=True)
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        if command == "append":
            rows = [usage_row() for _ in range(int(argument))]
            for row in rows:
                journal.append(row)
            print(" ".join(row.id for row in rows), flush=True)
        elif command == "flood":
            while True:
                row = usage_row()
                journal.append(row)
                print(row.id, time.monotonic(), flush=True)
                time.sleep(0.001)
        elif command == "pending":
            print(journal.pending(), flush=True)
        elif command == "close":
            asyncio.run(journal.close())
            print("closed", flush=True)
            return


if __name__ == "__main__":
    main()
