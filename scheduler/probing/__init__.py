"""Health probes and metrics readings, in a process of their own.

A thousand replicas are asked a thousand times a second, and pages of metrics are long: on the
loop that relays tokens, or on a thread that shares its interpreter's lock, each of these would
be time that a token waits. ``prober.Prober`` is that process as the relaying loop sees it; all
other modules run inside it.
"""
