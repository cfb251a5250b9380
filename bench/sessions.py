"""Signs operators in at the database and prints their session cookies as JSON."""

import json
import sys

import django

django.setup()

# Only a Django that is set up has models.
from django.conf import settings  # noqa: E402
from django.test import Client  # noqa: E402

from console.models import User  # noqa: E402


def main(count: int) -> None:
    """Make ``count`` operators and sign each of them in."""
    cookies = []
    for number in range(count):
        user, _ = User.objects.get_or_create(username=f"viewer-{number}", role=User.Role.OPERATOR)
        client = Client()
        client.force_login(user)
        cookies.append(client.cookies[settings.SESSION_COOKIE_NAME].value)
    sys.stdout.write(json.dumps(cookies))


if __name__ == "__main__":
    main(int(sys.argv[1]))
