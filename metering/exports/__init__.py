"""Bills as files."""

from .formats import FORMATS, Format, filename, render

__all__ = ["FORMATS", "Format", "filename", "render"]
