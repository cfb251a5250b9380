"""What attempts teach: how long prefills, steps and services take, and how long answers are."""

from .events import Finished
from .outstanding import AHEAD, SHORT, beside, first_token
from .replica import Replica
from .request import Request
from .state import State

# A request that has more tokens than were expected is expected to have a part more of them.
GROWTH = 8


def note_progress(state: State, request: Request, replica: Replica, tokens: int) -> None:
    """The attempt has produced ``tokens`` output tokens."""
    if not request.seen and request.produced:
        took = state.now - request.dispatched
        state.estimates.resumed(request.ticket, replica.facts.name, request.produced, took)
    if request.generative:
        if not request.first:
            _first_token(state, request, replica)
            if replica.group is not None:
                replica.group.touch(replica)
        _grow(request, replica, tokens)


def _first_token(state: State, request: Request, replica: Replica) -> None:
    estimates, name, own = state.estimates, replica.facts.name, request.prefill
    # Whether it has waited for those before it shows where they had much more to do than it.
    if request.ahead > max(SHORT * own, AHEAD):
        sharing = min(request.ahead, own * len(replica.prefills)) + own
        took = state.now - request.dispatched - sharing
        part = took / max(1.0, request.ahead - sharing)
        estimates.waited(name, min(1.0, max(0.0, part)))
    first_token(replica, request, state.now, serial=estimates.serial(name) > 0.5)


def _grow(request: Request, replica: Replica, tokens: int) -> None:
    """Reserve KV cache for what an answer really comes to, where it is longer than expected."""
    done = request.produced + tokens
    if replica.facts.kv_tokens is None or request.ticket.prompt + done <= request.kv:
        return
    most = request.ticket.output or done + done // GROWTH
    needs = request.ticket.prompt + min(most, done + done // GROWTH)
    more = min(needs - request.kv, replica.facts.kv_tokens - replica.kv_used)
    if more > 0:
        rate = 1.0 / (request.estimate or 1)
        request.kv += more
        replica.kv_used += more
        replica.kv_turnover += more * rate


def note_pause(state: State, request: Request, produced: int) -> None:
    """An attempt has stopped with ``produced`` output tokens in all. It still holds its slot."""
    replica = request.replica
    if replica is not None and request.first and produced > request.produced + 1:
        _decoded(state, request, replica, produced)
    request.produced = max(request.produced, produced)
    # Longer than expected already: it is as likely to be half as long again.
    request.answer = max(request.answer, produced + produced // GROWTH)


def learn_from(state: State, request: Request, replica: Replica, event: Finished) -> None:
    """An attempt has ended well. It still holds its slot."""
    estimates, ticket, name = state.estimates, request.ticket, replica.facts.name
    held = state.now - request.dispatched
    if not request.generative:
        if not request.produced:
            estimates.served(ticket.model, name, held, state.now)
        return
    if event.output or event.prompt:
        estimates.answered(ticket.business, ticket.model, max(1, event.output))
    whole = not request.produced
    request.seen = max(request.seen, event.output - request.produced)
    # What was still being computed when it began could not be found, whatever there is room for.
    if request.held and not request.ahead and event.cached is not None and event.prompt:
        found = int(ticket.prompt * min(1.0, event.cached / event.prompt))
        state.prefixes.correct(name, request.held, found)
    if event.prompt and not event.output:
        # All of it was the prompt: nothing was written.
        if whole:
            estimates.prefilled(ticket.model, name, _computed(request, event), held, state.now)
        return
    if request.first:
        if whole:
            tokens = _computed(request, event)
            estimates.prefilled(ticket.model, name, tokens, request.prefill, state.now)
        _decoded(state, request, replica, event.output)
    elif event.output > request.produced:
        # When its answer began is not known: the prompt is taken to have been as quick as others.
        rest = held - min(request.prefill, held / 2)
        tokens = event.output - request.produced
        slots = replica.facts.slots
        estimates.decoded(ticket.model, name, slots, replica.running, rest / tokens, state.now)


def _decoded(state: State, request: Request, replica: Replica, output: int) -> None:
    """Steps since its first token have given the rest of ``output`` tokens."""
    steps = output - request.produced - 1
    took = state.now - request.first
    if steps > 0 and took > 0:
        running = beside(replica, request, state.now)
        state.estimates.decoded(
            request.ticket.model,
            replica.facts.name,
            replica.facts.slots,
            running,
            took / steps,
            state.now,
        )


def _computed(request: Request, event: Finished) -> float:
    """Prompt tokens that were not found in the prefix cache, in the gateway's count."""
    prompt = request.ticket.prompt
    if event.cached is not None and event.prompt:
        return max(1.0, prompt * (1.0 - min(1.0, event.cached / event.prompt)))
    return float(max(1, prompt - request.held))
