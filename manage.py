#!/usr/bin/env python
"""Entry point of every Fairlane command: ``python manage.py <command>``."""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.config.settings")
    execute_from_command_line(sys.argv)
