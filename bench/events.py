"""A server that answers every POST with a stream of small events at an even pace."""

import argparse
import asyncio
import re
import time

EVENTS = 250
EVERY_S = 0.01
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
START = (
    b'{"id":"cmpl-5d2f8a3c91e64b07","object":"text_completion","created":1760000000,'
    b'"model":"org/Model-7B","choices":['
)
# Different words in a row: some gateways take a repeated one for a fault.
WORDS = (b"The", b" report", b" shows", b" no", b" sign", b" of", b" it", b";", b" look", b" again")
LAST = (
    START + b'{"index":0,"text":"","logprobs":null,"finish_reason":"length","stop_reason":null}]}'
)
USAGE = START + b'],"usage":{"prompt_tokens":21,"completion_tokens":250,"total_tokens":271}}'


def chunk(data: bytes) -> bytes:
    """One event as one chunk of the transfer coding."""
    event = b"data: " + data + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(event), event)


def token(word: bytes, ids: bytes = b"") -> bytes:
    """The event of one token."""
    choice = b'{"index":0,"text":"%b","logprobs":null,"finish_reason":null,"stop_reason":null%b}]}'
    return chunk(START + choice % (word, ids))


TOKENS = [token(word) for word in WORDS]
# As vLLM has them when it is asked for token ids.
WITH_IDS = [token(word, b',"token_ids":[15496]') for word in WORDS]
# For whoever asks when an event was sent: the text is the clock, in nanoseconds.
SENT = re.compile(rb'"text":" (\d{10,20})"')
TAIL = chunk(LAST) + chunk(USAGE) + chunk(b"[DONE]") + b"0\r\n\r\n"


class Stream(asyncio.Protocol):
    """One connection: a whole request in, a stream out, again."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._seen = b""
        self._due = 0.0
        self._left = 0
        self._tokens = TOKENS
        self._tells_time = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self._seen += data
        head, end, body = self._seen.partition(b"\r\n\r\n")
        if not end or len(body) < _length(head):
            return
        self._seen = b""
        self._tokens = WITH_IDS if b"return_token_ids" in body else TOKENS
        self._tells_time = b'"tell_sent"' in body
        assert self._transport is not None
        self._transport.write(HEAD)
        self._left = EVENTS
        self._due = self._loop.time()
        self._next()

    def _next(self) -> None:
        assert self._transport is not None
        if not self._left:
            self._transport.write(TAIL)
            return
        if self._tells_time:
            # For as long as it is read.
            ids = b',"token_ids":[15496]' if self._tokens is WITH_IDS else b""
            self._transport.write(token(b" %d" % time.monotonic_ns(), ids))
        else:
            self._left -= 1
            self._transport.write(self._tokens[self._left % len(self._tokens)])
        self._due += EVERY_S
        self._timer = self._loop.call_at(self._due, self._next)


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


async def main(port: int) -> None:
    """Serve until the process is ended."""
    server = await asyncio.get_running_loop().create_server(Stream, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    asyncio.run(main(parser.parse_args().port))
