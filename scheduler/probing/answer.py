"""An HTTP/1.1 answer, read as its bytes come.

Only what a question without a body can have as its answer: a status, and a body by its length,
in chunks, or up to the connection's end.
"""

import re
from collections.abc import Callable

STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: |$)")
HEXADECIMAL = re.compile(rb"[0-9A-Fa-f]{1,8}")
MOST_HEAD_BYTES = 64 * 1024
MOST_BODY_BYTES = 4 * 1024 * 1024
WITHOUT_BODY = frozenset({204, 304})


class BadAnswerError(Exception):
    """What came is no HTTP, or is too long."""


class Answer:
    """``feed`` it until it is ``whole``. ``begun`` once a byte has come; ``keep`` where the
    connection may be used again afterwards."""

    def __init__(self) -> None:
        self.status = 0
        self.body = bytearray()
        self.begun = self.whole = False
        self._keep = False
        self._left = 0
        self._data = bytearray()
        # Reads as much as is there; False when it needs more.
        self._part: Callable[[], bool] = self._head

    @property
    def keep(self) -> bool:
        """Whether server and answer leave the connection fit for another question."""
        return self._keep and self.whole and not self._data

    def feed(self, data: bytes) -> bool:
        """More bytes; whether it is whole now. Raises BadAnswerError."""
        self.begun = True
        self._data += data
        while not self.whole and self._part():
            if len(self.body) > MOST_BODY_BYTES:
                raise BadAnswerError("its answer is too long")
        return self.whole

    def end(self) -> bool:
        """The connection has ended; whether it is whole."""
        self.whole |= self._part == self._rest
        return self.whole

    def _head(self) -> bool:
        end = self._data.find(b"\r\n\r\n")
        if end > MOST_HEAD_BYTES or (end < 0 and len(self._data) > MOST_HEAD_BYTES):
            raise BadAnswerError("the head of its answer is too long")
        if end < 0:
            return False
        first, *lines = bytes(self._data[:end]).split(b"\r\n")
        del self._data[: end + 4]
        found = STATUS.match(first)
        if found is None:
            raise BadAnswerError(f"it answers no HTTP, but {first[:40]!r}")
        self.status = int(found[2])
        if self.status >= 200:  # else it is only a word ahead
            self._begin_body(_fields(lines), minor=found[1])
        return True

    def _begin_body(self, fields: dict[bytes, bytes], minor: bytes) -> None:
        self._keep = minor == b"1" and b"close" not in fields.get(b"connection", b"")
        length = fields.get(b"content-length")
        if self.status in WITHOUT_BODY:
            self.whole = True
        elif b"chunked" in fields.get(b"transfer-encoding", b""):
            self._part = self._chunk
        elif length is None:
            self._keep, self._part = False, self._rest
        elif not length.isdigit():
            raise BadAnswerError(f"its answer has the length {length[:40]!r}")
        else:
            self._left, self._part = int(length), self._measured
            self._check(self._left)

    def _measured(self) -> bool:
        """A body of known length."""
        self.whole = self._take()
        return self.whole

    def _rest(self) -> bool:
        """A body that ends with the connection."""
        self._left = len(self._data)
        return self._left > 0 and self._take()

    def _chunk(self) -> bool:
        """The line before a chunk."""
        line = self._line()
        if line is None:
            return False
        size = line.partition(b";")[0].strip()
        if not HEXADECIMAL.fullmatch(size):
            raise BadAnswerError(f"a chunk of its answer has the length {size[:40]!r}")
        self._left = int(size, 16)
        self._check(self._left)
        self._part = self._piece if self._left else self._trailer
        return True

    def _piece(self) -> bool:
        """A chunk, and the line end behind it."""
        if self._left and not self._take():
            return False
        if self._line() is None:
            return False
        self._part = self._chunk
        return True

    def _trailer(self) -> bool:
        """Lines behind the last chunk, up to an empty one."""
        line = self._line()
        self.whole = line == b""
        return line is not None

    def _take(self) -> bool:
        """Move what is there of the bytes that are left to the body; whether none is left."""
        part = self._data[: self._left]
        del self._data[: self._left]
        self.body += part
        self._left -= len(part)
        return not self._left

    def _line(self) -> bytes | None:
        end = self._data.find(b"\r\n")
        if end < 0:
            self._check(len(self._data) - MOST_HEAD_BYTES + MOST_BODY_BYTES)
            return None
        line = bytes(self._data[:end])
        del self._data[: end + 2]
        return line

    def _check(self, size: int) -> None:
        if size > MOST_BODY_BYTES:
            raise BadAnswerError("its answer is too long")


def _fields(lines: list[bytes]) -> dict[bytes, bytes]:
    """Header fields by name, both in lower case."""
    pairs = (line.partition(b":") for line in lines)
    return {name.strip().lower(): value.strip().lower() for name, _, value in pairs}
