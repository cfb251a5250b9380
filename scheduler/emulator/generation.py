"""``/v1/chat/completions``, ``/v1/completions`` and ``/v1/embeddings``."""

import asyncio
import time

import msgspec
from aiohttp import web

from .answers import split_prompt
from .calls import Call
from .embeddings import as_base64, embed
from .engine import Output, Sequence
from .errors import ApiError, too_long
from .faults import Faults
from .prompts import chat_prompt_ids, message_pairs, prompts_of
from .recorder import Seen
from .requests import ChatRequest, CompletionRequest, EmbeddingRequest, Sampling
from .server import Emulator, json_response, parse
from .shapes import ChatShape, CompletionShape, Shape
from .streams import send_stream
from .tokens import detokenize
from .usage import UsageReport

# No token stands for more characters than this.
MOST_CHARACTERS = 12


class Generation:
    """The endpoints that take slots."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator

    async def chat(
        self, request: web.Request, raw: bytes, faults: Faults, seen: Seen
    ) -> web.StreamResponse:
        """``POST /v1/chat/completions``."""
        body = parse(ChatRequest, raw)
        model = self._check(body)
        turns = message_pairs(body.messages)
        self._check_size(sum(len(text) for _, text in turns))
        prompt = chat_prompt_ids(
            turns,
            add_generation_prompt=body.add_generation_prompt,
            continue_final_message=body.continue_final_message,
        )
        shape = ChatShape(seen.id, int(time.time()), model, with_ids=bool(body.return_token_ids))
        echo = ""
        if faults.echo_partial and body.continue_final_message:
            echo = detokenize(split_prompt(prompt)[1])
        return await self._answer(request, body, [prompt], shape, faults, seen, echo)

    async def completions(
        self, request: web.Request, raw: bytes, faults: Faults, seen: Seen
    ) -> web.StreamResponse:
        """``POST /v1/completions``."""
        body = parse(CompletionRequest, raw)
        model = self._check(body)
        if isinstance(body.prompt, str):
            self._check_size(len(body.prompt))
        prompts = prompts_of(body.prompt)
        shape = CompletionShape(
            seen.id, int(time.time()), model, with_ids=bool(body.return_token_ids)
        )
        return await self._answer(request, body, prompts, shape, faults, seen)

    async def embeddings(
        self, request: web.Request, raw: bytes, faults: Faults, seen: Seen
    ) -> web.StreamResponse:
        """``POST /v1/embeddings``: a prefill without an answer for each input."""
        body = parse(EmbeddingRequest, raw)
        model = self._emulator.check_model(body.model)
        self._emulator.check_priority(body.priority)
        if body.encoding_format not in {"float", "base64"}:
            raise ApiError("encoding_format must be float or base64.", param="encoding_format")
        dimensions = body.dimensions or self._emulator.settings.dimensions
        if not 1 <= dimensions <= self._emulator.settings.dimensions:
            raise ApiError("dimensions must be within the model's.", param="dimensions")
        prompts = prompts_of(body.input)
        for prompt in prompts:
            self._budget(prompt, 0)
        await self._prefill(prompts, body.priority, seen)
        vectors = [embed(prompt, dimensions) for prompt in prompts]
        plain = body.encoding_format == "float"
        tokens = sum(map(len, prompts))
        answer = {
            "id": f"embd-{seen.id}",
            "object": "list",
            "created": int(time.time()),
            "model": model,
            "data": [
                {
                    "index": index,
                    "object": "embedding",
                    "embedding": vector if plain else as_base64(vector),
                }
                for index, vector in enumerate(vectors)
            ],
            "usage": {
                "prompt_tokens": tokens,
                "total_tokens": tokens,
                "completion_tokens": 0,
                "prompt_tokens_details": None,
            },
        }
        return json_response(msgspec.json.encode(answer))

    def _check(self, body: Sampling) -> str:
        model = self._emulator.check_model(body.model)
        body.check()
        self._emulator.check_priority(body.priority)
        return model

    def _check_size(self, characters: int) -> None:
        """Refuse a text that is too long whatever its tokens are, without counting them."""
        limit = self._emulator.settings.max_model_len
        if characters > limit * MOST_CHARACTERS:
            raise too_long(limit, characters // 4, None)

    def _budget(self, prompt: list[int], wanted: int | None) -> int:
        """Tokens the answer may have. Raises ApiError where prompt and answer are too long."""
        limit = self._emulator.settings.max_model_len
        if len(prompt) >= limit or (wanted is not None and len(prompt) + wanted > limit):
            raise too_long(limit, len(prompt), wanted)
        return limit - len(prompt) if wanted is None else wanted

    async def _answer(
        self,
        request: web.Request,
        body: Sampling,
        prompts: list[list[int]],
        shape: Shape,
        faults: Faults,
        seen: Seen,
        echo: str = "",
    ) -> web.StreamResponse:
        options = body.stream_options
        report = UsageReport(
            asked=bool(options and options.include_usage),
            continuous=bool(options and options.continuous_usage_stats),
            details=self._emulator.settings.details,
            fault=faults.usage,
        )
        budgets = [self._budget(prompt, body.max_tokens) for prompt in prompts]
        call = Call(self._emulator.driver, shape, report, body, prompts, budgets, echo)
        try:
            if body.stream and not faults.plain_for_stream:
                return await send_stream(request, call, faults)
            call.start()
            await call.done
            return json_response(call.whole())
        finally:
            seen.generated = call.generated
            if not faults.ignore_disconnect:
                call.abort()

    async def _prefill(self, prompts: list[list[int]], priority: int, seen: Seen) -> None:
        driver = self._emulator.driver
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        sequences = [Sequence(seen.id, prompt, iter(()), 0, priority) for prompt in prompts]
        left = len(sequences)

        def take(_: Output) -> None:
            nonlocal left
            left -= 1
            if not left and not done.done():
                done.set_result(None)

        for sequence in sequences:
            driver.submit(sequence, take)
        try:
            await done
        finally:
            for sequence in sequences:
                driver.abort(sequence)
