"""``manage.py translations update|check|compile``: the console in other languages."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from console.translations.catalogs import compile_all, complete, problems


class Command(BaseCommand):
    """Find what is to be translated, say what is missing, compile what is there."""

    help = "Complete, check or compile the translations below console/locale."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The verb, and the part of the catalogs that new strings go to."""
        parser.add_argument("verb", choices=("update", "check", "compile"))
        parser.add_argument("--part", default="console", help="catalog that gets new strings")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it; ``check`` fails with a line for each problem."""
        root, source = settings.BASE_DIR, settings.LOCALE_SOURCES
        if options["verb"] == "compile":
            compile_all(source, settings.LOCALE_PATHS[0])
        elif options["verb"] == "update":
            added, dropped = complete(root, source, options["part"])
            self.stdout.write(f"{added} to translate, {dropped} no longer used")
        elif found := problems(root, source):
            raise CommandError("\n".join(found))
