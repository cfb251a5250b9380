"""The thread that hears publishers, on real sockets."""

import logging
import queue
import socket
import time
from collections.abc import Iterator

import pytest
import zmq

from scheduler.kv_events.ear import MOST_MESSAGE_BYTES, TELL_EVERY_S, Context, Ear
from scheduler.kv_events.listener import Listener

from .publishers import Publisher, batch, publishing, removed, stored

WAIT_S = 20.0
Heard = queue.Queue[tuple[str, int | None]]


@pytest.fixture
def heard() -> Heard:
    return queue.Queue()


@pytest.fixture
def listener(heard: Heard) -> Iterator[Listener]:
    found = Listener(lambda name, evicted: heard.put((name, evicted)))
    yield found
    found.close()


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    with publishing() as found:
        yield found


def total(heard: Heard, tokens: int) -> int:
    """Take what is told until it comes to ``tokens``; how many times something was told."""
    times, seen = 0, 0
    while seen < tokens:
        _, evicted = heard.get(timeout=WAIT_S)
        assert evicted is not None
        seen, times = seen + evicted, times + 1
    assert seen == tokens
    return times


def test_what_leaves_is_told(listener: Listener, publisher: Publisher, heard: Heard) -> None:
    listener.listen({"r1": publisher.url})
    publisher.heard()
    publisher.send(stored(10))
    publisher.send(removed(3), removed(2))
    assert heard.get(timeout=WAIT_S) == ("r1", 80)


def test_each_replica_is_heard_for_itself(listener: Listener, heard: Heard) -> None:
    with publishing() as one, publishing() as two:
        listener.listen({"r1": one.url, "r2": two.url})
        one.heard()
        two.heard()
        one.send(stored(1), removed(1))
        two.send(stored(1, size=32), removed(2))
        assert {heard.get(timeout=WAIT_S) for _ in range(2)} == {("r1", 16), ("r2", 64)}


def test_a_missing_batch_loses_all(listener: Listener, publisher: Publisher, heard: Heard) -> None:
    listener.listen({"r1": publisher.url})
    publisher.heard()
    publisher.send(stored(10))
    publisher.number += 1
    publisher.send(removed(1))
    assert heard.get(timeout=WAIT_S) == ("r1", None)


@pytest.mark.parametrize(("missed", "told"), [(0, 16), (1, None), (-1, None)])
def test_a_connection_that_comes_back_says_whether_anything_was_missed(
    listener: Listener, heard: Heard, missed: int, told: int | None
) -> None:
    """The publisher's socket is closed and opened again on its port."""
    context: Context = zmq.Context()
    try:
        first = Publisher(context)
        listener.listen({"r1": first.url})
        first.heard()
        first.send(stored(10), removed(1))
        assert heard.get(timeout=WAIT_S) == ("r1", 16)
        first.close()
        again = _opened(context, first.port)
        again.heard()
        again.number = first.number + missed
        again.send(removed(1))
        assert heard.get(timeout=WAIT_S) == ("r1", told)
        again.close()
    finally:
        context.destroy(linger=0)


def _opened(context: Context, port: int) -> Publisher:
    """A publisher on a port that another has just left."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            return Publisher(context, port)
        except zmq.ZMQError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_who_is_wanted_no_more_is_left(
    listener: Listener, publisher: Publisher, heard: Heard
) -> None:
    listener.listen({"r1": publisher.url})
    publisher.heard()
    listener.listen({"r1": ""})
    publisher.left()
    listener.listen({"r1": publisher.url})
    publisher.heard()
    listener.listen({})
    publisher.left()
    assert heard.empty()


GARBAGE = [
    (b"",),
    (b"", b"", b""),
    (b"x" * 100_000,),
    (b"", bytes(8), b"\xc1"),
    (b"", bytes(8), b"\x91" * 300_000),
]


def test_garbage_costs_a_line_in_the_log(
    listener: Listener, publisher: Publisher, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    """However much of it there is; what follows is heard again."""
    caplog.set_level(logging.INFO)
    listener.listen({"r1": publisher.url})
    publisher.heard()
    for _ in range(200):
        for frames in GARBAGE:
            publisher.raw(*frames)
    assert heard.get(timeout=WAIT_S) == ("r1", None)
    publisher.number = 77
    publisher.send(stored(1, size=64))
    told: int | None = None
    while told is None:
        publisher.send(removed(1))
        _, told = heard.get(timeout=WAIT_S)
    assert told % 64 == 0
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1
    assert "r1" in lines[0]


def test_a_message_that_is_too_long_is_not_taken(
    listener: Listener, publisher: Publisher, heard: Heard
) -> None:
    """The connection is closed over it, and made again; what was in it nobody knows."""
    listener.listen({"r1": publisher.url})
    publisher.heard()
    publisher.send(stored(1), removed(1))
    assert heard.get(timeout=WAIT_S) == ("r1", 16)
    publisher.raw(b"", publisher.number.to_bytes(8, "big"), bytes(MOST_MESSAGE_BYTES + 1))
    publisher.number += 1
    publisher.left()
    publisher.heard()
    publisher.send(removed(1))
    assert heard.get(timeout=WAIT_S) == ("r1", None)


def test_a_flood_is_told_in_few_words(
    listener: Listener, publisher: Publisher, heard: Heard
) -> None:
    """Thousands of batches, one sum after the other, none lost: they wait at the publisher."""
    listener.listen({"r1": publisher.url})
    publisher.heard()
    publisher.send(stored(1))
    for _ in range(2000):
        publisher.send(removed(1))
    assert total(heard, 2000 * 16) < 500


def test_one_that_floods_does_not_keep_the_others_from_being_heard(
    listener: Listener, heard: Heard
) -> None:
    with publishing() as loud, publishing() as quiet:
        listener.listen({"a-loud": loud.url, "quiet": quiet.url})
        loud.heard()
        quiet.heard()
        for _ in range(1000):
            loud.send(*[removed(1)] * 50)
        quiet.send(stored(1), removed(1))
        while heard.get(timeout=WAIT_S)[0] != "quiet":
            pass


def test_time_that_is_up_is_up() -> None:
    """Nothing is read beyond it, whatever there is; and what is read is told so often at most."""
    context: Context = zmq.Context()
    told: list[int | None] = []
    with publishing() as publisher:
        ear = Ear("r1")
        try:
            ear.attend(context, publisher.url, 100.0)
            publisher.heard()
            for _ in range(10):
                publisher.send(stored(1), removed(1))
            assert not ear.hear(time.thread_time())
            now, deadline = 100.0, time.monotonic() + WAIT_S
            while sum(evicted or 0 for evicted in told) < 160:
                assert time.monotonic() < deadline
                ear.hear(time.thread_time() + WAIT_S)
                now += TELL_EVERY_S / 10
                ear.tell(now, lambda _, evicted: told.append(evicted))
            assert len(told) <= 1 + (now - 100.0) / TELL_EVERY_S
        finally:
            ear.close()
            context.destroy(linger=0)


def test_servers_that_speak_something_else_do_no_harm(
    listener: Listener, publisher: Publisher, heard: Heard
) -> None:
    """One that answers in HTTP, one that hangs up at once, one that nobody is behind."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port, closed = server.getsockname()[1], nobody.getsockname()[1]
        listener.listen(
            {
                "http": f"tcp://127.0.0.1:{port}",
                "closed": f"tcp://127.0.0.1:{closed}",
                "r1": publisher.url,
            }
        )
        server.settimeout(WAIT_S)
        for answer in (b"HTTP/1.1 400 Bad Request\r\n\r\n" * 100, b"", b"\xff" * 64 + b"\x00" * 64):
            peer, _ = server.accept()
            peer.sendall(answer)
            peer.close()
        publisher.heard()
        publisher.raw(b"", bytes(8), batch(stored(1), removed(1)))
        while (told := heard.get(timeout=WAIT_S)) != ("r1", 16):
            # Some bytes pass for messages of ZeroMQ's first version, which say nothing.
            assert told == ("http", None)


def test_without_publishers_there_is_no_thread(heard: Heard) -> None:
    listener = Listener(lambda name, evicted: heard.put((name, evicted)))
    listener.listen({})
    assert listener._thread is None
    listener.close()
