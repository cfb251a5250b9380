"""HTTP answers, however their bytes are cut, and what is none."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.probing.answer import MOST_BODY_BYTES, MOST_HEAD_BYTES, Answer, BadAnswerError

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
# Bytes, and the status, body and fitness for another question that they come to.
WHOLE: dict[str, tuple[bytes, int, bytes, bool]] = {
    "length": (OK + b"Content-Length: 5\r\n\r\nhello", 200, b"hello", True),
    "empty": (OK + b"content-LENGTH:0\r\n\r\n", 200, b"", True),
    "chunks": (CHUNKED + b"3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n", 200, b"hello", True),
    "trailer": (CHUNKED + b"A\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\n", 200, b"0123456789", True),
    "line ends in a chunk": (CHUNKED + b"4\r\n\r\n\r\n\r\n0\r\n\r\n", 200, b"\r\n\r\n", True),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
    "words ahead": (
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\nx",
        200,
        b"x",
        True,
    ),
    "no words": (b"HTTP/1.1 503\r\nContent-Length: 2\r\n\r\nno", 503, b"no", True),
    "closes": (OK + b"Connection: Close\r\nContent-Length: 2\r\n\r\nok", 200, b"ok", False),
    "old": (b"HTTP/1.0 404 Not Found\r\nContent-Length: 2\r\n\r\nno", 404, b"no", False),
}
UNTIL_END = OK + b"Content-Type: text/plain\r\n\r\nhello, world"
BAD = {
    "greeting": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "newer": b"HTTP/2 200\r\n\r\n",
    "length": OK + b"Content-Length: -5\r\n\r\n",
    "chunk": CHUNKED + b"zz\r\n",
    "signed chunk": CHUNKED + b"+5\r\nhello\r\n",
    "long head": OK + b"X: " + b"x" * (MOST_HEAD_BYTES + 1),
    "long, by its length": OK + b"Content-Length: %d\r\n\r\n" % (MOST_BODY_BYTES + 1),
    "long chunk": CHUNKED + b"%x\r\n" % (MOST_BODY_BYTES + 1),
    "long in chunks": CHUNKED + (b"100000\r\n" + b"x" * 0x100000 + b"\r\n") * 5,
    "long line": CHUNKED + b"5;" + b"x" * (MOST_HEAD_BYTES + 1),
    "long to its end": OK + b"\r\n" + b"x" * (MOST_BODY_BYTES + 1),
}


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in pairwise(places)]


@pytest.mark.parametrize("form", WHOLE)
@given(cuts=st.lists(st.integers(0, 10_000), max_size=8))
def test_the_same_answer_however_it_is_cut(form: str, cuts: list[int]) -> None:
    data, status, body, keep = WHOLE[form]
    answer = Answer()
    told = [answer.feed(piece) for piece in pieces(data, cuts)]
    assert told[-1]
    assert not any(told[:-1])
    assert (answer.status, bytes(answer.body), answer.keep) == (status, body, keep)


@pytest.mark.parametrize("form", WHOLE)
def test_byte_by_byte(form: str) -> None:
    data, status, body, _ = WHOLE[form]
    answer = Answer()
    told = [answer.feed(data[n : n + 1]) for n in range(len(data))]
    assert told.index(True) == len(data) - 1
    assert (answer.status, bytes(answer.body)) == (status, body)


@given(cuts=st.lists(st.integers(0, 10_000), max_size=8))
def test_a_body_without_a_length_ends_with_its_connection(cuts: list[int]) -> None:
    answer = Answer()
    assert not any(answer.feed(piece) for piece in pieces(UNTIL_END, cuts))
    assert answer.end()
    assert bytes(answer.body) == b"hello, world"
    assert not answer.keep


@pytest.mark.parametrize("form", ["length", "chunks", "words ahead"])
def test_what_is_cut_short_is_not_whole(form: str) -> None:
    data = WHOLE[form][0]
    for end in range(len(data)):
        answer = Answer()
        answer.feed(data[:end])
        assert not answer.end()


@pytest.mark.parametrize("form", BAD)
def test_what_is_no_answer_is_said_to_be_none(form: str) -> None:
    with pytest.raises(BadAnswerError, match=r"\w"):
        Answer().feed(BAD[form])


def test_more_than_was_asked_for_leaves_no_connection_to_use() -> None:
    answer = Answer()
    assert answer.feed(WHOLE["length"][0] + OK)
    assert not answer.keep
