"""How a request's prompt begins, for who looks for a replica that has computed it already.

The beginning is read as the caller wrote it: a later turn's ``messages`` begin with the bytes of
the earlier turn's, but for the closing bracket. A client that writes the same turns in another
way is taken for another conversation; nobody is served wrongly for that.
"""

import re
import secrets
import struct

import msgspec

from scheduler.core.ticket import PREFIX_BLOCK

from .incoming import Incoming, session_name
from .payload import BYTES_PER_TOKEN, Fields, Payload, is_null

# Where an operation has its prompt; others have none that an engine would keep.
PROMPTS = {"chat": "messages", "text_completion": "prompt"}
# A text, or the ids of one: a list of prompts is several beginnings.
ONE_PROMPT = re.compile(rb'"|\[\s{0,16}\d')
# What makes an engine keep the same words apart: salts, adapters, and what chat templates write
# before the first message.
APART = frozenset(
    {
        "adapter_id",
        "cache_salt",
        "chat_template",
        "chat_template_kwargs",
        "documents",
        "extra_key",
        "functions",
        "lora",
        "lora_path",
        "reasoning_effort",
        "tools",
    }
)
BLOCK_BYTES = PREFIX_BLOCK * BYTES_PER_TOKEN
MOST_BLOCKS = 512
MOST_BYTES = MOST_BLOCKS * BLOCK_BYTES
MOST_APART_BYTES = 256 * 1024

# Python's own hash of bytes is SipHash, three times as fast here as the library's keyed ones.
# It hides what it is made of, also where PYTHONHASHSEED is known, behind a secret of ours.
_SECRET = secrets.token_bytes(16)
_cut = struct.Struct(f"{BLOCK_BYTES}s").iter_unpack
_text = msgspec.json.Decoder(str).decode


def blocks_of(payload: Payload, operation: str) -> tuple[int, ...]:
    """Keyed hashes (64 bits) of the prompt's beginnings, each one block of ``PREFIX_BLOCK`` tokens
    longer than the one before, ``MOST_BLOCKS`` at most."""
    name = PROMPTS.get(operation)
    if name is None:
        return ()
    beginning = _beginning(payload.fields[name], operation)
    whole = len(beginning) // BLOCK_BYTES * BLOCK_BYTES
    apart = _apart(payload.fields, payload.keys & APART) if whole else None
    if apart is None:
        return ()
    chain = hash((payload.model, apart))
    found = []
    for (block,) in _cut(beginning[:whole]):
        chain = hash((chain, _SECRET + block))
        found.append(chain)
    return tuple(found)


def _beginning(raw: msgspec.Raw, operation: str) -> bytes:
    """The prompt without what closes it: that is where a longer one would go on."""
    view = memoryview(raw)
    if operation != "chat" and ONE_PROMPT.match(view) is None:
        return b""
    size = view.nbytes - 1
    return bytes(view[:size]).rstrip() if size < MOST_BYTES else bytes(view[:MOST_BYTES])


def _apart(fields: Fields, names: frozenset[str]) -> int | None:
    """One number for all that keeps this prompt from those that begin alike; None where that is
    too long to be looked at."""
    given = [(name, fields[name]) for name in sorted(names) if not is_null(fields[name])]
    if sum(memoryview(raw).nbytes for _, raw in given) > MOST_APART_BYTES:
        return None
    return hash(tuple((name, _SECRET + bytes(raw)) for name, raw in given))


def session_of(incoming: Incoming, payload: Payload, business: str) -> str:
    """The conversation that the request is part of, where the caller names one by header or by
    OpenAI's ``prompt_cache_key``; another business's of the same name is another one."""
    name = incoming.session
    if not name and "prompt_cache_key" in payload.keys:
        try:
            name = session_name(_text(payload.fields["prompt_cache_key"]))
        except msgspec.MsgspecError:
            name = ""
    return f"{business}:{name}" if name else ""
