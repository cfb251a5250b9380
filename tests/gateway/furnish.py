"""``python -m tests.gateway.furnish FLEET POLICY``: make a database ready for a gateway, in one
process.

Migrates, applies the fleet file, activates the policy, and prints a key of each business and a
signed-in operator's session, as JSON.
"""

import json
import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.config.settings")
django.setup()

# Django must be set up before anything that reaches its models is imported.
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY  # noqa: E402
from django.contrib.sessions.backends.db import SessionStore  # noqa: E402
from django.core.management import call_command  # noqa: E402

from console.models import User  # noqa: E402
from metering.models import Business  # noqa: E402
from metering.services.keys import create_key  # noqa: E402


def main(fleet: str, policy: str) -> dict[str, object]:
    """Everything is done as the commands and the console do it."""
    call_command("migrate", verbosity=0, skip_checks=True)
    call_command("fleet", "apply", fleet, stdout=sys.stderr)
    call_command("policy", "import", policy, "--activate", stdout=sys.stderr)
    keys = {
        business.name: create_key(business, "tests", actor=None, source="tests")[1]
        for business in Business.objects.all()
    }
    user = User.objects.create_user("watcher", password=None, role=User.Role.OPERATOR)
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    return {"keys": keys, "session": session.session_key}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
