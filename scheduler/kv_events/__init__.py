"""What engines say about their prefix caches: vLLM's and SGLang's KV cache events over ZeroMQ.

Only what leaves a cache counts here. What is in it the scheduler knows by the requests it sent:
the events' hashes are of tokens, which only the engine has.
"""

from .watcher import KvEvents

__all__ = ["KvEvents"]
