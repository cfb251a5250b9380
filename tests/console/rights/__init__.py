"""Who gets what from each address, one module a part of the console.

A module here has ``RIGHTS`` and may have ``objects(people)``, which makes what the addresses
in it are about: a dict whose values fill the ``{name}`` parts of paths and data.
"""
