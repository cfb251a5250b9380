"""What is known from measurement: how long work takes where, and how long answers are.

A request of a model without tokens takes a *service* time. One with tokens is *prefilled*, all of
its prompt at once, and then *decoded*, one token of its answer a step; a step is longer the more
requests share it. Prefill, step and service are learned apart, by model and *kind* of card: cards
of one kind are taken to be equally fast, so that luck in measuring makes none look better. One that
has shown to be clearly slower or faster than its kind (``odd``) counts by its own measurements. A
kind never measured borrows what the model takes elsewhere.
"""

from dataclasses import dataclass, field
from math import exp, log

from .fit import Fit
from .ticket import Ticket

MEMORY = 16
OUTPUT_MEMORY = 32
TOKENS_PRIOR = 256
# And of requests that say how many they may have.
MOST_PRIOR = 2 * TOKENS_PRIOR
SERVICE_PRIOR = 1_000_000_000
# ns of a step, and of a token's prefill.
STEP_PRIOR = 20_000_000.0
PREFILL_PRIOR = 200_000.0
# A service so many times shorter than the mean says that the mean is wrong.
FAR = 8.0
# In so long (ns) without a measurement, what was measured before comes to count half as much.
HALF_LIFE = 120e9
# And is aged no more often than this (ns).
AGED_EVERY = 1_000_000_000
# Below so many measurements of late nothing is known of a model.
KNOWN = 2.0
# Below so many samples a pair counts as unexplored.
EXPLORED = 4
# The variance of the logarithm of an answer's length, of which one sample tells nothing.
SPREAD_PRIOR = 0.4
# A card is odd from the first ratio to its kind on, and until it is within the second; so many
# measurements make that clear.
ODD, EVEN, CLEAR = 1.25, 1.1, 8


@dataclass(slots=True)
class Mean:
    """An exponential mean that starts as a plain one."""

    value: float
    samples: float = 1.0

    def learn(self, sample: float, memory: int) -> None:
        """Take one sample in. One that is ``FAR`` times lower makes it and the next count more: a
        mean that has gone wrong must not keep work out for long."""
        if sample * FAR < self.value:
            self.samples /= 2.0
        samples = self.samples + 1.0
        # Twice as fast as min, twice a request.
        self.samples = samples = samples if samples < memory else memory  # noqa: FURB136
        self.value += (sample - self.value) / samples


@dataclass(slots=True)
class Length:
    """How long answers are, in tokens, or services without tokens, in ns. ``value`` is the mean,
    for what many of them come to; ``middle`` the geometric mean, which a single one exceeds about
    as often as not: a few long ones raise the mean far above most of them. ``spread`` is the
    variance of their logarithm."""

    value: float
    middle: float
    samples: int = 1
    spread: float = SPREAD_PRIOR

    def learn(self, length: float) -> None:
        """Take one in. One that is far shorter makes it and the next count more (see ``Mean``)."""
        if length * FAR < self.middle:
            self.samples = min(OUTPUT_MEMORY, self.samples) // 2
        self.samples += 1
        part = 1.0 / min(OUTPUT_MEMORY, self.samples)
        self.value += (length - self.value) * part
        off = log(length / self.middle)
        self.middle *= exp(part * off)
        self.spread += part * (off * off * (1.0 - part) - self.spread)

    def quantile(self, deviations: float) -> float:
        """What is exceeded only by those so many standard deviations above the middle."""
        return self.middle * exp(deviations * self.spread**0.5)


@dataclass(slots=True)
class Speed:
    """How fast one model is, on a replica, on a kind of card or wherever it runs. ``service`` (ns,
    None: never measured) is of requests without tokens; ``prefill`` (ns) by tokens, ``step`` (ns)
    by requests that run beside it; ``at`` is when it was measured last (ns). Of a replica,
    ``ratio`` compares its measurements to its kind's; ``odd``: it differs clearly."""

    service: Mean | None = None
    prefill: Fit = field(default_factory=Fit)
    step: Fit = field(default_factory=Fit)
    at: int = 0
    ratio: Mean = field(default_factory=lambda: Mean(1.0, 0))
    odd: bool = False

    @property
    def samples(self) -> float:
        """How often it was measured, fading."""
        return self.service.samples if self.service is not None else self.step.weight

    def age(self, now: int) -> None:
        """Before it is measured again at ``now`` (ns): the longer ago, the less it counts."""
        passed = now - self.at
        if passed >= AGED_EVERY:
            kept = 0.5 ** (passed / HALF_LIFE) if self.at else 1.0
            self.prefill.weight *= kept
            self.step.weight *= kept
            if self.service is not None:
                self.service.samples *= kept
            self.at = now

    def compare(self, ratio: float) -> None:
        """One measurement was so many times what its kind takes."""
        self.ratio.learn(ratio, MEMORY)
        if self.ratio.samples >= CLEAR:
            away = max(self.ratio.value, 1.0 / max(self.ratio.value, 1e-9))
            self.odd = away > (EVEN if self.odd else ODD)


@dataclass(slots=True)
class Estimates:
    """Speeds by model: of each replica, of each kind of card, and of ``models`` wherever they ran;
    ``homes``: the kind of each replica. ``output``: by (business, model), and by ("", model) of
    all; ``resumes``: ns until a paused request goes on, per token of prompt and answer so far, by
    (model, replica); ``times``: how services without tokens spread, by model. ``waits``: how far
    prompts wait for each other, instead of sharing the card, by kind (0-1)."""

    homes: dict[str, str] = field(default_factory=dict)
    replicas: dict[str, dict[str, Speed]] = field(default_factory=dict)
    kinds: dict[str, dict[str, Speed]] = field(default_factory=dict)
    models: dict[str, Speed] = field(default_factory=dict)
    output: dict[tuple[str, str], Length] = field(default_factory=dict)
    resumes: dict[tuple[str, str], Mean] = field(default_factory=dict)
    waits: dict[str, Mean] = field(default_factory=dict)
    times: dict[str, Length] = field(default_factory=dict)

    def length(self, ticket: Ticket) -> Length | None:
        """How long answers to its business are, or to anybody of that model; None: unknown."""
        output, model = self.output, ticket.model
        return output.get((ticket.business, model)) or output.get(("", model))

    def tokens(self, ticket: Ticket) -> int:
        """Output tokens to expect: as its business's requests had, within what it allows."""
        known, most = self.length(ticket), ticket.output
        if known is not None:
            expected = round(known.value) or 1
        else:
            expected = MOST_PRIOR if most else TOKENS_PRIOR
        return most if 0 < most < expected else expected

    def quantile(self, ticket: Ticket, deviations: float) -> int:
        """Slot time (ns) that such a request takes, where it is so many standard deviations (of the
        logarithm) longer than the middle one."""
        if not (ticket.prompt or ticket.output):
            times = self.times.get(ticket.model)
            return self.typical(ticket) if times is None else int(times.quantile(deviations))
        known, most = self.length(ticket), ticket.output
        if known is None:
            return self.typical(ticket)
        tokens = max(1.0, known.quantile(deviations))
        return self.typical(ticket, min(tokens, float(most)) if most else tokens)

    def speed(self, model: str, replica: str) -> Speed | None:
        """The speed there, or anywhere as long as it was never measured on such a card; None:
        unknown."""
        held = self.replicas.get(replica)
        if held is not None:
            found = held.get(model)
            if found is not None and found.odd:
                return found
        kind = self.kinds.get(self.homes.get(replica, ""))
        if kind is not None:
            found = kind.get(model)
            if found is not None:
                return found
        return self.models.get(model)

    def explored(self, model: str, replica: str) -> bool:
        """Whether the model has been measured often enough on such a card to be judged."""
        found = self.kinds.get(self.homes.get(replica, ""), {}).get(model)
        return found is not None and found.samples >= EXPLORED

    def known(self, model: str, now: int) -> bool:
        """Whether the model has been measured often enough of late, anywhere, to be judged."""
        found = self.models.get(model)
        if found is None or found.samples < KNOWN:
            return False
        kept: float = 0.5 ** ((now - found.at) / HALF_LIFE)
        return found.samples * kept >= KNOWN

    def prefill_known(self, model: str) -> bool:
        """Whether a prompt of the model was ever measured."""
        found = self.models.get(model)
        return found is not None and found.prefill.weight > 0

    def prefill(self, model: str, replica: str, tokens: float) -> float:
        """ns to compute so many tokens of a prompt with nothing beside it."""
        return self._prefill(self.speed(model, replica), model, tokens)

    def _prefill(self, found: Speed | None, model: str, tokens: float) -> float:
        if found is None:
            return PREFILL_PRIOR * tokens
        fit = found.prefill
        if not fit.weight:
            fit = self.models[model].prefill
            if not fit.weight:
                return PREFILL_PRIOR * tokens
        return fit.base + fit.slope * tokens

    def decoding(self, ticket: Ticket, replica: str, running: float, produced: int) -> float:
        """ns that the rest of its answer is expected to take there once its prompt is computed, of
        which it has ``produced`` tokens, where ``running`` requests share the steps."""
        speed = self.speed(ticket.model, replica)
        step = STEP_PRIOR
        if speed is not None and speed.step.weight:
            step = speed.step.base + speed.step.slope * running
        return max(1.0, float(self.tokens(ticket) - produced)) * step

    def serial(self, replica: str) -> float:
        """How far prompts wait for each other there (1) instead of sharing the card (0), which is
        believed until it is known."""
        found = self.waits.get(self.homes.get(replica, ""))
        return found.value if found is not None else 0.0

    def waited(self, replica: str, part: float) -> None:
        """A prompt has waited there by so much of what it would if none shared the card."""
        kind = self.homes.get(replica, replica)
        found = self.waits.get(kind)
        if found is None:
            self.waits[kind] = Mean(part)
        else:
            found.samples = samples = found.samples + 1
            found.value += (part - found.value) / min(samples, MEMORY)

    def expected(
        self, ticket: Ticket, replica: str, running: float = 0.0, produced: int = 0
    ) -> int:
        """Slot time (ns) to expect of a request on a replica where ``running`` requests share the
        steps, itself included (0: as many as usual), of which it has ``produced`` tokens."""
        return self._slot_time(ticket, replica, running, self.tokens(ticket), produced)

    def foreseen(self, ticket: Ticket, replica: str, running: float = 0.0, output: int = 0) -> int:
        """The service (ns) that a single request is foretold there: it is about as likely to
        take longer as not. ``output``: how long its answer is, if somebody knows (tokens)."""
        length = self.length(ticket)
        middle = float(self.tokens(ticket)) if length is None else max(1.0, length.middle)
        if ticket.output:
            middle = min(middle, ticket.output)
        return self._slot_time(ticket, replica, running, output or middle, 0)

    def typical(self, ticket: Ticket, output: float = 0.0) -> int:
        """Slot time (ns) to expect wherever it may come to run, of an answer of ``output`` tokens
        (0: as many as are to be expected)."""
        return self._slot_time(ticket, "", 0.0, output or self.tokens(ticket), 0)

    def _slot_time(
        self, ticket: Ticket, replica: str, running: float, output: float, produced: int
    ) -> int:
        speed, prompt = self.speed(ticket.model, replica), ticket.prompt
        if not (prompt or ticket.output):
            service = speed.service if speed is not None else None
            return int(service.value) if service is not None else SERVICE_PRIOR
        left = max(1.0, output - produced)
        step = STEP_PRIOR
        if speed is not None and speed.step.weight:
            fit = speed.step
            step = fit.base + fit.slope * (running or fit.x)
        known = self.resumes.get((ticket.model, replica)) if produced else None
        if known is not None:
            return int(known.value * (prompt + produced) + left * step)
        return int(self._prefill(speed, ticket.model, prompt + produced) + left * step)

    def effort(self, model: str, prompt: float, output: float) -> float:
        """ns that so many tokens take wherever the model runs."""
        step, found = STEP_PRIOR, self.models.get(model)
        if found is not None and found.step.weight:
            step = found.step.y
        return self.prefill(model, "", prompt) + output * step

    def _levels(self, model: str, replica: str, slots: int) -> tuple[Speed, Speed, Speed]:
        """What is known of the model on the replica, on its kind and anywhere, made on first
        sight."""
        found = []
        kind = self.homes.get(replica, replica)
        for table in (
            self.replicas.setdefault(replica, {}),
            self.kinds.setdefault(kind, {}),
            self.models,
        ):
            speed = table.get(model)
            if speed is None:
                speed = table[model] = Speed(step=Fit(float(slots)))
            found.append(speed)
        return found[0], found[1], found[2]

    def served(self, model: str, replica: str, held: int, now: int) -> None:
        """A request without tokens has held its slot for so long (ns)."""
        here, kind, anywhere = self._levels(model, replica, 0)
        if kind.service is not None and kind.service.value:
            here.compare(held / kind.service.value)
        times = self.times.get(model)
        if times is None:
            self.times[model] = Length(held or 1, held or 1)
        else:
            times.learn(held or 1)
        for speed, memory in ((here, MEMORY), (kind, 4 * MEMORY), (anywhere, 4 * MEMORY)):
            speed.age(now)
            if speed.service is None:
                speed.service = Mean(held)
            else:
                speed.service.learn(held, memory)

    def prefilled(self, model: str, replica: str, tokens: float, took: float, now: int) -> None:
        """A prompt has taken so long (ns) to compute, shared time counted by its share."""
        for speed in self._levels(model, replica, 0):
            speed.age(now)
            speed.prefill.learn(tokens, took)

    def decoded(
        self, model: str, replica: str, slots: int, running: float, step: float, now: int
    ) -> None:
        """Steps have taken so long (ns) in the mean, with so many ``running``."""
        here, kind, anywhere = self._levels(model, replica, slots)
        if kind.step.weight and kind.step.at(running):
            here.compare(step / kind.step.at(running))
        for speed in (here, kind, anywhere):
            speed.age(now)
            speed.step.learn(running, step)

    def answered(self, business: str, model: str, tokens: int) -> None:
        """An answer had so many tokens."""
        for key in ((business, model), ("", model)):
            length = self.output.get(key)
            if length is None:
                self.output[key] = Length(tokens, tokens)
            else:
                length.learn(tokens)

    def resumed(self, ticket: Ticket, replica: str, produced: int, took: int) -> None:
        """Learn from a request that went on from ``produced`` tokens, ``took`` ns after it got
        its slot: restored from a snapshot, found in a cache, or computed again."""
        unit = took / max(1, ticket.prompt + produced)
        key = (ticket.model, replica)
        known = self.resumes.get(key)
        if known is None:
            self.resumes[key] = Mean(unit)
        else:
            known.learn(unit, MEMORY)

    def resuming(self, ticket: Ticket, replica: str, produced: float) -> int:
        """Time (ns) to expect until a request paused on the replica goes on from ``produced``
        tokens; that of computing all of it again until it has been measured."""
        known = self.resumes.get((ticket.model, replica))
        if known is not None:
            return int(known.value * (ticket.prompt + produced))
        return int(self.prefill(ticket.model, replica, ticket.prompt + produced))

    def forget(self, replica: str) -> None:
        """A replica has been replaced: what was measured there counts no more. What its kind
        takes stays known."""
        self.replicas.pop(replica, None)
        for key in [key for key in self.resumes if key[1] == replica]:
            del self.resumes[key]
