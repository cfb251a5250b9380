"""The garbage collector of a process that serves."""

import gc

# Many requests at once are no garbage: each lets go of its own when it ends.
NEW_OBJECTS = 20_000


def settle() -> None:
    """Leave out of all later collections what is loaded by now, for good.

    A look over everything that Django and its libraries have loaded would halt all requests
    for some 100 ms, and again each time as many objects are new.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)
