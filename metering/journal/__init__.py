"""The usage journal: rows are on disk before they are in Postgres, and land there once.

append ─> memory ─(20 ms)─> segment file ─(50 ms)─> fsync
                                 └─(250 ms, batches)─> Postgres ─> file deleted
"""

from .journal import Journal

__all__ = ["Journal"]
