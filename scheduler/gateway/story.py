"""What one resumable request carries from attempt to attempt."""

from dataclasses import dataclass, field

from .answer import Assembler
from .transcript import Transcript
from .usage import Usage


@dataclass(slots=True)
class Story:
    """The transcript, the request's stop strings, and, for a plain answer, what is being put
    together. ``base`` output tokens existed before the present attempt; ``most`` may there be
    in all (0: no bound). ``guessed``: the engine did not count those ``base`` tokens."""

    stops: tuple[str, ...]
    assembler: Assembler | None = None
    transcript: Transcript = field(default_factory=Transcript)
    base: int = 0
    most: int = 0
    guessed: bool = False

    @property
    def can_go_on(self) -> bool:
        """Whether another attempt can continue it: not once it has shown more than text."""
        return not self.transcript.bound

    @property
    def said_all(self) -> bool:
        """Whether there may be no further token: only its end is missing."""
        return 0 < self.most <= self.transcript.tokens

    def pause(self) -> int:
        """An attempt is over, the answer is not; returns how many tokens there are."""
        transcript = self.transcript
        transcript.pause()
        self.base, self.guessed = transcript.tokens, transcript.guessed
        return self.base

    def total(self, usage: Usage) -> Usage:
        """Usage of the whole answer, ``usage`` being the present attempt's own."""
        return self.transcript.total(usage, self.base) if self.base else usage
