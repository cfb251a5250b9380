"""From a scenario's plain data to its typed form, with the path of every problem."""

from copy import deepcopy

from metering.core.facts import LANES, BusinessFacts
from scheduler.core.policy import Policy, Problem
from scheduler.plain_data import Node

from .lp import could_serve
from .reading_arrivals import read_arrivals
from .reading_cluster import NAME, NAME_ALLOWED, read_cluster
from .reading_tools import MOST, TEXT, finish, items
from .scenario import Fault, ReplicaSpec, Scenario, Tenant

GRADES = ("vip", "premium", "basic")
REALTIME = ("high", "medium", "low")
# Lanes whose policy says what a budget is measured to.
BUDGETED = ("P0", "P1")
# How long P2 waits before it counts as starved, where a scenario is silent (s).
STARVED_AFTER_S = 90.0


class Reading:
    """One pass over a scenario. ``problems`` make it unusable; ``remarks`` are keys that
    nothing here knows: somebody's notes, or a slip of the pen. ``unserved`` are streams whose
    model no card could hold: a workload like any other, whose requests are all refused."""

    def __init__(self, data: object) -> None:
        self.problems: list[Problem] = []
        self.remarks: list[Problem] = []
        self.unserved: list[Problem] = []
        self.policy_document: object = {}
        self._node = Node(data, "", self.problems)

    def scenario(self) -> Scenario:
        """The scenario under the default policy; of no use when there are problems.

        Afterwards ``policy_document`` has its own policy, queue timeouts included.
        """
        node = self._node
        cluster = node.child("cluster") or Node({}, "cluster", self.problems)
        models, replicas, idle_cards = read_cluster(cluster, self.remarks)
        tenants = self._tenants()
        streams = [
            read_arrivals(item, models, tenants, self.remarks) for item in items(node, "arrivals")
        ]
        starved = node.child("starved_after_s") or Node({}, "starved_after_s", self.problems)
        scenario = Scenario(
            name=node.needed("name", NAME, NAME_ALLOWED),
            about=node.text("about", "", TEXT, "a text"),
            seed=node.whole("seed", 0, 0, 2**63 - 1),
            duration_s=node.number("duration_s", 0.0, 0, MOST),
            models=models,
            replicas=tuple(replicas),
            tenants=tenants,
            arrivals=tuple(streams),
            faults=self._faults(replicas),
            starved_after_s=starved.number("P2", STARVED_AFTER_S, 0, MOST),
            policy=Policy(),
            idle_cards=idle_cards,
        )
        self._note_unserved(scenario)
        if not node.has("duration_s"):
            node.note("duration_s", "is missing: must be a number of seconds")
        self._read_policy()
        finish(node, self.remarks)
        return scenario

    def _tenants(self) -> dict[str, Tenant]:
        found: dict[str, Tenant] = {}
        for item in items(self._node, "businesses"):
            facts = BusinessFacts(
                name=item.needed("name", NAME, NAME_ALLOWED),
                grade=item.choice("grade", "basic", GRADES),
                ceiling=LANES.index(item.choice("ceiling", "P1", LANES)),
                realtime=item.choice("realtime", None, REALTIME),
                offline=item.flag("offline", default=False),
                billing_sla=item.flag("billing_sla", default=False),
                weight=item.number("weight", 1.0, 1e-6, 1e6),
            )
            rate = burst = None
            quota = item.child("quota")
            if quota is not None:
                rate = quota.number("requests_per_s", None, 0, MOST)
                burst = quota.whole("burst", None, 0, 2**31 - 1)
                finish(quota, self.remarks)
            if facts.name in found:
                item.note("name", "stands there twice")
            found[facts.name] = Tenant(facts, rate, burst)
            finish(item, self.remarks)
        return found

    def _note_unserved(self, scenario: Scenario) -> None:
        served = {name for spec in could_serve(scenario) for name in spec.models}
        for place, stream in enumerate(scenario.arrivals):
            if stream.model and stream.model not in served:
                path = f"arrivals[{place}].model"
                message = f"no replica holds {stream.model}, and no idle card could"
                self.unserved.append(Problem(path, message))

    def _faults(self, replicas: list[ReplicaSpec]) -> tuple[Fault, ...]:
        names = [replica.name for replica in replicas]
        found = []
        for item in items(self._node, "faults"):
            fault = Fault(
                replica=item.needed_choice("replica", names),
                down_at_s=item.number("down_at_s", 0.0, 0, MOST),
                up_at_s=item.number("up_at_s", MOST, 0, MOST),
            )
            if fault.up_at_s <= fault.down_at_s:
                item.note("up_at_s", "must be after down_at_s")
            found.append(fault)
            finish(item, self.remarks)
        return tuple(found)

    def _read_policy(self) -> None:
        """What the scenario says of timeouts and budgets goes into its policy, unless that
        names its own."""
        document = deepcopy(self._node.plain("policy"))
        given = document or {}
        # Figures measure a budget from arrival to completion; the policy's default is the first
        # token. A core that judged by that would be held to another yardstick than it has.
        for lane in BUDGETED:
            _set_default(given, lane, "budget_on", "completion")
        timeouts = self._node.child("queue_timeout_s")
        if timeouts is not None:
            for lane in LANES:
                seconds = timeouts.number(lane, None, 0, MOST)
                if seconds is not None:
                    _set_default(given, lane, "queue_timeout_ms", round(seconds * 1000))
            finish(timeouts, self.remarks)
        self.policy_document = given


def _set_default(document: object, lane: str, name: str, value: object) -> None:
    """Give a queue's field a value where the policy has none. What is no mapping stays as it
    is: reading the policy says so."""
    at = document
    for key in ("scheduler", "queues", lane):
        if not isinstance(at, dict):
            return
        at = at.setdefault(key, {})
    if isinstance(at, dict):
        at.setdefault(name, value)
