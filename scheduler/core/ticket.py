"""A request as the scheduler sees it: who, how urgent, how big. No text, no money."""

from enum import Enum

from .policy import Order
from .record import record


class Resume(Enum):
    """What may happen to a request while it runs."""

    NEVER = "never"  # it is no victim
    RESTART = "restart"  # it may be stopped, and run again from the start, before its first byte
    CONTINUE = "continue"  # it may be paused, and go on from what it has produced


# Looked up at every turn, and an enum's attributes are slow.
NEVER, _, CONTINUE = Resume

# Tokens of a prompt for each hash in ``Ticket.blocks``.
PREFIX_BLOCK = 64


@record
class Ticket:
    """One request that asks for a slot.

    ``id`` is unique for all time. ``lane`` 0-2 and ``level`` 0-9 come from the classifier;
    ``arrived`` is the gateway's clock in ns. ``prompt`` tokens are the gateway's estimate,
    ``output`` the most it may produce (0: not said); both 0 for work without tokens.
    ``budget`` is the time from arrival in which it is due (ns; None: any time). ``order`` and
    ``patience`` (ns, the longest time in the queue) are there for a request that has other
    rules than the policy's; None: the policy's. ``realtime``: somebody waits for the answer.
    ``budget_named``: the caller named the budget for this request, which is not its business's.
    ``lighter`` are the models that may answer in place of its own, the nearest first.
    ``blocks`` are hashes of ever longer beginnings of the prompt, one each ``PREFIX_BLOCK``
    tokens: two prompts that begin alike begin with the same ones. ``session`` names the
    conversation that it is part of, where its caller says so. ``streamed``: its answer comes in
    parts, so that its first token is told when it is there.
    """

    id: str
    business: str
    model: str
    lane: int
    level: int
    arrived: int
    prompt: int = 0
    output: int = 0
    budget: int | None = None
    resume: Resume = NEVER
    session: str = ""
    order: Order | None = None
    patience: int | None = None
    realtime: bool = False
    lighter: tuple[str, ...] = ()
    blocks: tuple[int, ...] = ()
    budget_named: bool = False
    streamed: bool = True
