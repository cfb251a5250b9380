"""The journal's files: who owns a folder, and how rows get into it.

Each process claims a sub-folder by a lock that the kernel drops when the process dies. What
a dead process left in its sub-folder is taken over by another.
"""

import fcntl
import os
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SUFFIX = ".usage"
SEGMENT_BYTES = 4 * 1024 * 1024


@dataclass(slots=True)
class Segment:
    """One file of records. ``size`` bytes of it may be read; ``growing`` while more may come."""

    path: Path
    size: int
    growing: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """A sub-folder that this process alone uses for as long as ``lock`` is open."""

    folder: Path
    lock: int

    def paths(self) -> list[Path]:
        """The files found here, oldest first."""
        return sorted(self.folder.glob(f"*{SUFFIX}"), key=number)

    def segments(self) -> list[Segment]:
        """The same, as segments that grow no more."""
        return [Segment(path, path.stat().st_size, growing=False) for path in self.paths()]

    def release(self) -> None:
        """Leave the sub-folder to whoever claims it next."""
        os.close(self.lock)


def number(path: Path) -> int:
    """A segment's place in its folder's order."""
    return int(path.stem) if path.stem.isdigit() else 0


def claim(folder: Path) -> Claim | None:
    """Take ``folder``, made if need be; None when a living process has it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return Claim(folder, lock)


def claim_first(base: Path) -> Claim:
    """The first free one of ``base/0``, ``base/1``, ..."""
    place = 0
    while (found := claim(base / str(place))) is None:
        place += 1
    return found


def claim_abandoned(base: Path) -> list[Claim]:
    """The sub-folders of dead processes that still hold rows."""
    return [
        taken
        for folder in sorted(base.iterdir())
        if folder.is_dir() and any(folder.glob(f"*{SUFFIX}")) and (taken := claim(folder))
    ]


class SegmentFiles:
    """Writes records into bounded files of one claimed folder, and brings them to the disk.

    ``write`` is one thread's and ``sync`` another's: a slow fsync must not keep rows in
    memory, where ``kill -9`` would take them.
    """

    def __init__(self, claimed: Claim, segments: deque[Segment], limit: int) -> None:
        """New files follow those already in the folder, and are appended to ``segments``."""
        self._folder = claimed.folder
        self._number = max((number(path) for path in claimed.paths()), default=0)
        self._segments = segments
        self._limit = limit
        self._file: int | None = None
        self._segment: Segment | None = None
        # Guards what goes from the writing thread to the syncing one: the growing file's
        # descriptor and the three below.
        self._lock = threading.Lock()
        self._retired: list[int] = []
        self._dirty = False
        self._new_name = False

    def write(self, records: Sequence[bytes]) -> None:
        """Append ``records`` in order, all into one file, which ends there if it is full.

        Raises OSError when the disk refuses: then all of them are to be written again, into a
        new file, and the old one keeps at worst a torn tail that nobody reads.
        """
        segment, file = self._current()
        data = b"".join(records)
        try:
            written = 0
            while written < len(data):
                written += os.write(file, data[written:] if written else data)
        except OSError:
            self._retire()
            raise
        with self._lock:
            self._dirty = True
        segment.size += len(data)
        if segment.size >= self._limit:
            self._retire()

    def _current(self) -> tuple[Segment, int]:
        """The growing segment and its open file, made if there is none."""
        if self._segment is None or self._file is None:
            path = self._folder / f"{self._number + 1:012d}{SUFFIX}"
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
            self._number += 1
            self._segment = Segment(path, 0, growing=True)
            self._segments.append(self._segment)
            with self._lock:
                self._file = file
                self._new_name = True
        return self._segment, self._file

    def _retire(self) -> None:
        """End the growing file; its descriptor stays open until it is synced."""
        with self._lock:
            if self._file is not None:
                self._retired.append(self._file)
            self._file = None
        if self._segment is not None:
            self._segment.growing = False
            self._segment = None

    def sync(self) -> None:
        """Bring everything written so far to the disk. Raises OSError when the disk refuses."""
        with self._lock:
            retired, self._retired = self._retired, []
            current = os.dup(self._file) if self._file is not None and self._dirty else None
            self._dirty = False
            named, self._new_name = self._new_name, False
        files = retired if current is None else [*retired, current]
        try:
            for file in files:
                os.fdatasync(file)
        finally:
            for file in files:
                os.close(file)
        if named:
            sync_folder(self._folder)

    def close(self) -> None:
        """End the growing file and sync everything."""
        self._retire()
        self.sync()


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
