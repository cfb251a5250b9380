"""Request rates that businesses may not go beyond."""

from metering.core.bucket import TokenBucket

from .scenario import Scenario


def buckets(scenario: Scenario) -> list[TokenBucket | None]:
    """A full bucket for each business in order; None: its rate is not limited."""
    found: list[TokenBucket | None] = []
    for tenant in scenario.tenants.values():
        rate = tenant.requests_per_s
        if rate is None:
            found.append(None)
        else:
            burst = tenant.burst if tenant.burst is not None else max(1, int(rate))
            found.append(TokenBucket(rate, burst))
    return found
