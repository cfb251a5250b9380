"""The foreground supervisor behind ``make up``: one command, everything running, Ctrl-C ends it."""
