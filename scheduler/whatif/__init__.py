"""Recorded traffic once more through the production core, under another policy.

``recording`` reads what came, from usage rows; ``fit`` finds how long work takes where;
``replay`` drives the core on a virtual clock; ``figures`` and ``verdict`` compare.
"""
