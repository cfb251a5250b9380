"""Where one attempt's text meets the next."""

import pytest

from scheduler.gateway.seam import Seam

BEFORE = "The quick brown fox"


def passed(seam: Seam, *pieces: str) -> str:
    return "".join(seam.add(piece) for piece in pieces)


def test_text_goes_through_as_it_comes() -> None:
    seam = Seam(BEFORE, stops=(), echoes=True)
    assert [seam.add(piece) for piece in (" jumps", " over", "")] == [" jumps", " over", ""]


def test_a_repeated_beginning_is_dropped_with_and_without_new_text() -> None:
    assert passed(Seam(BEFORE, stops=(), echoes=True), BEFORE + " jumps", " over") == " jumps over"
    assert passed(Seam(BEFORE, stops=(), echoes=True), "", BEFORE, " jumps") == " jumps"


def test_only_the_first_words_are_an_echo() -> None:
    seam = Seam(BEFORE, stops=(), echoes=True)
    assert passed(seam, ". ", BEFORE) == ". " + BEFORE


def test_an_engine_that_never_echoes_is_believed() -> None:
    assert passed(Seam(BEFORE, stops=(), echoes=False), BEFORE) == BEFORE


def test_a_text_that_repeats_itself_token_by_token_loses_nothing() -> None:
    """What a small model says when it is stuck looks like an echo, but for how it comes."""
    before = "🎉🎊" * 10
    seam = Seam(before, stops=(), echoes=True)
    assert passed(seam, *("🎉", "🎊") * 30) == "🎉🎊" * 30


def test_a_short_beginning_is_not_taken_for_an_echo() -> None:
    assert passed(Seam("ha", stops=(), echoes=True), "ha", "ha") == "haha"


@pytest.mark.parametrize("cut", range(1, 5))
def test_a_stop_string_across_the_seam_ends_the_answer(cut: int) -> None:
    seam = Seam("one " + "STOP!"[:cut], stops=("STOP!",), echoes=False)
    assert passed(seam, *"STOP!"[cut:], " two") == "STOP!"[cut:-1]
    assert seam.stopped


def test_a_stop_string_across_the_seam_in_one_piece() -> None:
    seam = Seam("one ST", stops=("###", "STOP"), echoes=False)
    assert seam.add("OP and more") == ""
    assert seam.stopped
    assert seam.add("anything") == ""


def test_a_stop_string_in_new_text_is_the_engines_business() -> None:
    """It would have stopped there; what it sent is text."""
    seam = Seam("one ", stops=("STOP",), echoes=False)
    assert passed(seam, "STOP", " two") == "STOP two"
    assert not seam.stopped


def test_what_only_begins_like_a_stop_string_goes_on() -> None:
    seam = Seam("a ST", stops=("STOP",), echoes=False)
    assert passed(seam, "A", "R", "T") == "ART"
    assert not seam.stopped


def test_many_stop_strings_of_characters_of_several_bytes() -> None:
    seam = Seam("你好。", stops=("\n\n", "。🎉", "x"), echoes=True)
    assert seam.add("🎉再见") == ""
    assert seam.stopped
