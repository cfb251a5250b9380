"""What is known from measurement: how long work takes where, how much of it comes.

A request's *work* is 1 for models without tokens, else expected output tokens plus prompt
tokens / PREFILL_PER_DECODE. Service is slot time per unit of work, an exponential mean per
(model, replica); a pair never measured borrows the model's mean over other replicas.
"""

from dataclasses import dataclass, field
from typing import TypeVar

from .ticket import Ticket

# A token of the prompt costs about a hundredth of a token of the answer.
PREFILL_PER_DECODE = 100
MEMORY = 16
OUTPUT_MEMORY = 32
TOKENS_PRIOR = 256
# And of requests that say how many they may have.
MOST_PRIOR = 2 * TOKENS_PRIOR
SERVICE_PRIOR = 1_000_000_000
TOKEN_PRIOR = 20_000_000
# A service so many times shorter than the mean says that the mean is wrong.
FAR = 16.0
# Below so many samples a pair counts as unexplored.
EXPLORED = 4


K = TypeVar("K")


@dataclass(slots=True)
class Mean:
    """An exponential mean that starts as a plain one."""

    value: float
    samples: int = 1


def learn(means: dict[K, Mean], key: K, sample: float, memory: int, far: float = 0.0) -> None:
    """Take one sample into the mean of that name. One that is more than ``far`` times lower makes
    the next count more: a mean that has gone wrong must not keep work out for long."""
    mean = means.get(key)
    if mean is None:
        means[key] = Mean(sample)
        return
    if far and sample * far < mean.value:
        mean.samples >>= 1
    mean.samples = samples = mean.samples + 1
    # Twice as fast as min, twice a request.
    mean.value += (sample - mean.value) / (samples if samples < memory else memory)  # noqa: FURB136


@dataclass(slots=True)
class Length:
    """How long answers are, in tokens. ``value`` is the mean, for what many of them come to;
    ``middle`` the geometric mean, which a single one exceeds about as often as not: a few long
    answers raise the mean far above most of them."""

    value: float
    middle: float
    samples: int = 1

    def learn(self, tokens: int) -> None:
        """Take one answer in."""
        self.samples += 1
        part = 1.0 / min(OUTPUT_MEMORY, self.samples)
        self.value += (tokens - self.value) * part
        self.middle *= (tokens / self.middle) ** part


@dataclass(slots=True)
class Estimates:
    """``service``: ns per unit of work by (model, replica); ``output``: by (business, model);
    ``arrived``: work since the last look, by (model, lane); ``resumes``: ns until a paused
    request goes on, per token of prompt and answer so far, by (model, replica)."""

    service: dict[tuple[str, str], Mean] = field(default_factory=dict)
    models: dict[str, Mean] = field(default_factory=dict)
    output: dict[tuple[str, str], Length] = field(default_factory=dict)
    arrived: dict[tuple[str, int], float] = field(default_factory=dict)
    resumes: dict[tuple[str, str], Mean] = field(default_factory=dict)

    def tokens(self, ticket: Ticket) -> int:
        """Output tokens to expect: as its business's requests had, within what it allows."""
        known = self.output.get((ticket.business, ticket.model))
        if known is not None:
            expected, most = round(known.value) or 1, ticket.output
        else:
            expected, most = MOST_PRIOR if ticket.output else TOKENS_PRIOR, ticket.output
        return most if 0 < most < expected else expected

    def work(self, ticket: Ticket, produced: int = 0) -> float:
        """Units of work still to do when ``produced`` output tokens exist already."""
        if not ticket.prompt and not ticket.output:
            return 1.0
        left = max(1, self.tokens(ticket) - produced)
        return left + (ticket.prompt + produced) / PREFILL_PER_DECODE

    def per_unit(self, model: str, replica: str) -> float:
        """ns of slot time per unit of the model's work on the replica."""
        known = self.service.get((model, replica))
        if known is not None:
            return known.value
        mean = self.models.get(model)
        return mean.value if mean is not None else 0.0

    def explored(self, model: str, replica: str) -> bool:
        """Whether the pair has been measured often enough to be judged."""
        known = self.service.get((model, replica))
        return known is not None and known.samples >= EXPLORED

    def expected(self, ticket: Ticket, replica: str, produced: int = 0) -> int:
        """Slot time (ns) to expect of a request on a replica."""
        known = self.service.get((ticket.model, replica)) or self.models.get(ticket.model)
        unit = known.value if known is not None else 0.0
        if not (ticket.prompt or ticket.output):
            return int(unit or SERVICE_PRIOR)
        left = max(1, self.tokens(ticket) - produced)
        return int((unit or TOKEN_PRIOR) * (left + (ticket.prompt + produced) / PREFILL_PER_DECODE))

    def foreseen(self, ticket: Ticket, replica: str = "") -> int:
        """The service (ns) that a single request is foretold, on a replica or wherever: it is
        about as likely to take longer as not."""
        known = self.service.get((ticket.model, replica)) or self.models.get(ticket.model)
        unit = known.value if known is not None else 0.0
        if not (ticket.prompt or ticket.output):
            return int(unit or SERVICE_PRIOR)
        length = self.output.get((ticket.business, ticket.model))
        output = float(self.tokens(ticket)) if length is None else max(1.0, length.middle)
        if ticket.output:
            output = min(output, ticket.output)
        return int((unit or TOKEN_PRIOR) * (output + ticket.prompt / PREFILL_PER_DECODE))

    def typical(self, ticket: Ticket, work: float) -> int:
        """Slot time (ns) to expect of so much work wherever it may come to run."""
        mean = self.models.get(ticket.model)
        if mean is not None:
            unit = mean.value
        else:
            unit = TOKEN_PRIOR if ticket.prompt or ticket.output else SERVICE_PRIOR
        return int(unit * work)

    def finished(self, ticket: Ticket, replica: str, held: int, output: int) -> None:
        """Learn from a request that ran to its end in one attempt: ``held`` ns for ``output``
        tokens (0: not known, or none)."""
        work = 1.0
        if ticket.prompt or ticket.output:
            key = (ticket.business, ticket.model)
            if output:
                length = self.output.get(key)
                if length is None:
                    self.output[key] = Length(output, output)
                else:
                    length.learn(output)
            work = (output or self.tokens(ticket)) + ticket.prompt / PREFILL_PER_DECODE
        unit = held / work
        learn(self.service, (ticket.model, replica), unit, MEMORY, FAR)
        learn(self.models, ticket.model, unit, 4 * MEMORY, FAR)

    def resumed(self, ticket: Ticket, replica: str, produced: int, took: int) -> None:
        """Learn from a request that went on from ``produced`` tokens, ``took`` ns after it got
        its slot: restored from a snapshot, found in a cache, or computed again."""
        unit = took / max(1, ticket.prompt + produced)
        learn(self.resumes, (ticket.model, replica), unit, MEMORY)

    def resuming(self, ticket: Ticket, replica: str, produced: float) -> int:
        """Time (ns) to expect until a request paused on the replica goes on from ``produced``
        tokens; that of computing all of it again until it has been measured."""
        known = self.resumes.get((ticket.model, replica))
        if known is not None:
            return int(known.value * (ticket.prompt + produced))
        unit = self.per_unit(ticket.model, replica) / PREFILL_PER_DECODE
        return int(unit * (ticket.prompt + produced))

    def done(self, ticket: Ticket, output: int) -> float:
        """Units of work of a request that came to ``output`` tokens (0: not known)."""
        if not ticket.prompt and not ticket.output:
            return 1.0
        return (output or self.tokens(ticket)) + ticket.prompt / PREFILL_PER_DECODE

    def doubt(self, model: str) -> None:
        """Work was refused by what is known of the model: the next measurements count more."""
        for mean in (
            self.models.get(model),
            *(mean for (name, _), mean in self.service.items() if name == model),
        ):
            if mean is not None:
                mean.samples = max(1, mean.samples - 1)

    def forget(self, replica: str) -> None:
        """A replica has been replaced: what was measured there counts no more."""
        for known in (self.service, self.resumes):
            for key in [key for key in known if key[1] == replica]:
                del known[key]
