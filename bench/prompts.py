"""Texts of an exact number of tokens, by the emulated cards' tokenizer."""

from random import Random

from scheduler.emulator.prose import words

# Each is one token with the space before it. Short ones, since ordinary text has four or so
# characters a token, by which a gateway that doesn't tokenize estimates its prompts.
WORDS = tuple(word for word in words() if word.startswith(" ") and len(word) <= 5)
# A chat prompt has the role, the end of the turn and the role of the answer besides its text.
AROUND = 3


def text_of(name: str, tokens: int) -> str:
    """So many tokens of text; another name gives another text, from its first words on."""
    return "".join(Random(name).choices(WORDS, k=max(1, tokens)))


def message_of(name: str, tokens: int) -> str:
    """The text of the one message that makes a chat prompt of so many tokens."""
    return text_of(name, tokens - AROUND)
