"""An HTTP server that behaves like vLLM on a GPU of a given size. It is no model server.

Tests, the demo and the experiments run against it. What it promises:

- *Service model* (``engine``, ``blocks``): continuous batching over ``slots`` sequences, a
  shared prefill rate, steps that grow with the running set, paged KV memory with a prefix
  cache, preemption when KV runs out. Pure: time is an argument.
- *Text* (``answers``, ``tokens``): a pure function of the prompt, so that a test can compute
  the full answer, and any part of it continues exactly where it stopped.
- *API* (``app`` and what it mounts): vLLM's endpoints, shapes, errors and metrics.
- *Faults* (``faults``): what servers do wrong, on command.
"""
