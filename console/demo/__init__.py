"""Data and traffic that make a new installation worth looking at."""
