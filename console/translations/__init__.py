"""The console in other languages: what is to be translated, the catalogs, and their checks.

Catalogs lie in ``console/locale/LANGUAGE/*.po``, one a part of the console so that work on one
part rarely touches another's file. They are compiled together into ``build/locale``.
"""
