"""The production core on a virtual clock, beside baselines, on the same requests.

A scenario file and a seed fix every arrival and every service time; a scheduler only
decides who runs when and where. Nothing here needs a database or a loop.
"""
