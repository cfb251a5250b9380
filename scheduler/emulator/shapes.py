"""The bodies of answers: chat and text completions, whole and in chunks, as vLLM writes them."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from .decoding import Answer, Piece
from .usage import UsageReport

encode = msgspec.json.encode
DONE = b"data: [DONE]\n\n"


def event(body: bytes) -> bytes:
    """One server-sent event."""
    return b"data: " + body + b"\n\n"


class Shape(Protocol):
    """One endpoint's way to write an answer."""

    id: str

    def opening(self, index: int, prompt: list[int], report: UsageReport) -> bytes:
        """Events before the first token of a choice; may be none."""

    def chunk(self, index: int, piece: Piece, report: UsageReport) -> bytes:
        """The event of one token."""

    def closing(self, report: UsageReport) -> bytes:
        """Events after the last token, up to ``[DONE]``."""

    def whole(
        self, answers: Sequence[Answer], prompts: Sequence[list[int]], report: UsageReport
    ) -> bytes:
        """The JSON body of a plain answer; ``prompts`` has one entry per answer."""


class _Stem:
    """What chat and text completions share: the envelope and the chunk's tail."""

    prefix: str
    chunk_object: str
    whole_object: str

    def __init__(self, request_id: str, created: int, model: str, *, with_ids: bool) -> None:
        self.id = f"{self.prefix}-{request_id}"
        self.created = created
        self.model = model
        self.with_ids = with_ids
        stem = {"id": self.id, "object": self.chunk_object, "created": created, "model": model}
        self._stem = b"data: " + encode(stem)[:-1] + b',"choices":['

    def closing(self, report: UsageReport) -> bytes:
        """The usage chunk, when there is one, and ``[DONE]``."""
        if not report.at_end:
            return DONE
        return self._stem + b'],"usage":' + encode(report.now()) + b"}\n\n" + DONE

    def _tail(self, piece: Piece, report: UsageReport) -> bytes:
        parts = [b',"logprobs":null,"finish_reason":', encode(piece.finish)]
        if piece.finish is not None:
            parts += [b',"stop_reason":', encode(piece.stop_reason)]
        if self.with_ids:
            parts += [b',"token_ids":', encode(piece.ids)]
        parts += [b"}]", report.in_chunk(last=piece.finish is not None), b"}\n\n"]
        return b"".join(parts)

    def _envelope(self, choices: list[dict[str, object]], report: UsageReport) -> dict[str, object]:
        body: dict[str, object] = {
            "id": self.id,
            "object": self.whole_object,
            "created": self.created,
            "model": self.model,
            "choices": choices,
            "service_tier": None,
            "system_fingerprint": None,
        }
        if report.in_whole:
            body["usage"] = report.now()
        return body


class ChatShape(_Stem):
    """``chat.completion``."""

    prefix = "chatcmpl"
    whole_object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def opening(self, index: int, prompt: list[int], report: UsageReport) -> bytes:
        """The chunk that names the role."""
        ids = b',"prompt_token_ids":' + encode(prompt) if self.with_ids else b""
        return (
            self._stem
            + b'{"index":%d,"delta":{"role":"assistant","content":""}' % index
            + b',"logprobs":null,"finish_reason":null}]'
            + ids
            + report.in_chunk(last=False)
            + b"}\n\n"
        )

    def chunk(self, index: int, piece: Piece, report: UsageReport) -> bytes:
        """A content delta."""
        head = b'{"index":%d,"delta":{"content":%b}' % (index, encode(piece.text))
        return self._stem + head + self._tail(piece, report)

    def whole(
        self, answers: Sequence[Answer], prompts: Sequence[list[int]], report: UsageReport
    ) -> bytes:
        """The plain answer."""
        choices: list[dict[str, object]] = [
            {
                "index": index,
                "message": {
                    "role": "assistant",
                    "content": answer.text,
                    "refusal": None,
                    "annotations": None,
                    "audio": None,
                    "function_call": None,
                    "tool_calls": [],
                    "reasoning": None,
                },
                "logprobs": None,
                "finish_reason": answer.finish,
                "stop_reason": answer.stop_reason,
                "token_ids": answer.ids if self.with_ids else None,
            }
            for index, answer in enumerate(answers)
        ]
        body = self._envelope(choices, report)
        body["prompt_logprobs"] = None
        body["prompt_token_ids"] = prompts[0] if self.with_ids else None
        body["kv_transfer_params"] = None
        return encode(body)


class CompletionShape(_Stem):
    """``text_completion``."""

    prefix = "cmpl"
    whole_object = "text_completion"
    chunk_object = "text_completion"

    def __init__(self, request_id: str, created: int, model: str, *, with_ids: bool) -> None:
        super().__init__(request_id, created, model, with_ids=with_ids)
        self._prompts: dict[int, list[int]] = {}

    def opening(self, index: int, prompt: list[int], report: UsageReport) -> bytes:
        """Nothing; the first chunk carries the prompt's ids when asked for."""
        if self.with_ids:
            self._prompts[index] = prompt
        return b""

    def chunk(self, index: int, piece: Piece, report: UsageReport) -> bytes:
        """A piece of text."""
        head = b'{"index":%d,"text":%b' % (index, encode(piece.text))
        prompt = self._prompts.pop(index, None)
        if prompt is not None:
            head += b',"prompt_token_ids":' + encode(prompt)
        return self._stem + head + self._tail(piece, report)

    def whole(
        self, answers: Sequence[Answer], prompts: Sequence[list[int]], report: UsageReport
    ) -> bytes:
        """The plain answer."""
        choices: list[dict[str, object]] = [
            {
                "index": index,
                "text": answer.text,
                "logprobs": None,
                "finish_reason": answer.finish,
                "stop_reason": answer.stop_reason,
                "token_ids": answer.ids if self.with_ids else None,
                "prompt_logprobs": None,
                "prompt_token_ids": prompts[index] if self.with_ids else None,
            }
            for index, answer in enumerate(answers)
        ]
        body = self._envelope(choices, report)
        body["kv_transfer_params"] = None
        return encode(body)
