"""The benchmark tables of README: ``python -m bench``.

Peers run side by side in one go, rounds interleaved, so that a busy machine hurts all of
them alike: read the ratios first.
"""
