"""Writes of the console itself."""
