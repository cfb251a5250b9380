"""The text is a known function of the prompt, and continues exactly where it was cut."""

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.emulator.answers import (
    answer_length,
    continue_answer,
    expected_ids,
    expected_text,
    is_open,
    split_prompt,
)
from scheduler.emulator.prompts import chat_prompt_ids
from scheduler.emulator.tokens import END_OF_TEXT, Detokenizer, detokenize, tokenize

PROMPTS = [
    chat_prompt_ids([("user", text)])
    for text in ("What is a queue?", "优先级是什么。", "👩‍💻 🇨🇳", "", "a\tb\r\n  c\x00\x00d")
]


@given(st.text())
@example("\x00 ")
def test_tokens_hold_any_text(text: str) -> None:
    assert detokenize(tokenize(text)) == text


def test_a_lone_surrogate_becomes_a_replacement_mark() -> None:
    assert detokenize(tokenize("a\ud800b")) == "a\ufffdb"


def test_an_ordinary_text_has_about_four_characters_a_token() -> None:
    text = "Please summarise the quarterly report and list its three largest risks."
    assert 3 <= len(text) / len(tokenize(text)) <= 5


def test_the_answer_says_what_it_is() -> None:
    assert all(expected_text(prompt).startswith("[emulated] ") for prompt in PROMPTS)


def test_answers_depend_on_the_prompt() -> None:
    assert len({expected_text(prompt) for prompt in PROMPTS}) == len(PROMPTS)


def test_some_answers_hold_chinese_and_emoji_of_several_code_points() -> None:
    text = "".join(expected_text(prompt, 400) for prompt in PROMPTS)
    assert "。" in text
    assert "\u200d" in text or "🇨🇳" in text


@pytest.mark.parametrize("prompt", PROMPTS)
def test_an_answer_tokenizes_to_what_it_was_made_of(prompt: list[int]) -> None:
    assert tokenize(expected_text(prompt)) == expected_ids(prompt)[:-1]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_ids_continue_exactly_between_characters(prompt: list[int]) -> None:
    ids = expected_ids(prompt)
    assert len(ids) == answer_length(prompt)
    for cut in range(len(ids)):
        rest = list(continue_answer([*prompt, *ids[:cut]]))
        rest = rest[: rest.index(END_OF_TEXT) + 1]
        if is_open(ids[:cut]):
            assert detokenize([*ids[:cut], *rest]) == expected_text(prompt)
        else:
            assert rest == ids[cut:]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_text_continues_exactly_wherever_it_is_cut(prompt: list[int]) -> None:
    text = expected_text(prompt)
    for cut in range(len(text) + 1):
        rest = detokenize(continue_answer([*prompt, *tokenize(text[:cut])]))
        assert text[:cut] + rest == text


def test_it_continues_across_several_cuts() -> None:
    prompt = PROMPTS[0]
    draw = random.Random(3)
    ids: list[int] = []
    while len(ids) < 300:
        more = continue_answer([*prompt, *ids], ignore_eos=True)
        ids += [next(more) for _ in range(draw.randrange(1, 40))]
        while is_open(ids):
            ids.append(next(more))
    assert ids == expected_ids(prompt, len(ids))


def test_a_lost_or_doubled_word_shows_in_the_rest() -> None:
    prompt = PROMPTS[0]
    ids = expected_ids(prompt, 60)
    doubled = [*ids[:30], ids[29]]
    lost = ids[:29]
    for broken in (doubled, [*lost[:20], *lost[21:]]):
        rest = list(continue_answer([*prompt, *broken]))
        assert detokenize([*broken, *rest]) != expected_text(prompt)


def test_an_answer_cut_inside_a_character_begins_with_a_replacement_mark() -> None:
    decoder = Detokenizer()
    emoji = tokenize("🚦")
    assert [decoder.feed(token) for token in emoji] == ["", "", "", "🚦"]
    fresh = Detokenizer()
    assert fresh.feed(emoji[1]) == "\ufffd"


def test_an_earlier_turn_is_prompt_and_not_answer() -> None:
    first = expected_text(PROMPTS[0])
    turns = [("user", "What is a queue?"), ("assistant", first), ("user", "Go on")]
    ids = chat_prompt_ids(turns)
    assert split_prompt(ids) == (ids, [])
    assert expected_text(ids).startswith("[emulated] ")


def test_the_longest_wish_is_met() -> None:
    prompt = PROMPTS[0]
    natural = answer_length(prompt)
    assert END_OF_TEXT not in expected_ids(prompt, natural + 100)
    longer = list(continue_answer(prompt, min_tokens=natural + 100))
    assert longer.index(END_OF_TEXT) >= natural + 100


@pytest.mark.parametrize("length", [1, 2, 17, 400])
def test_an_answer_has_the_length_asked_for_wherever_it_is_continued(length: int) -> None:
    prompt = PROMPTS[0]
    whole = [*expected_ids(prompt, length - 1), END_OF_TEXT]
    for cut in range(length):
        rest = list(continue_answer([*prompt, *whole[:cut]], length=length))
        assert rest[: rest.index(END_OF_TEXT) + 1] == whole[cut:]
