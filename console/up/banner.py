"""What the terminal shows once everything runs."""

import json
import shlex
from collections.abc import Mapping

from console.demo.record import DemoRecord

ROLES = ("owner", "operator", "finance", "admin")


def curl_line(base_url: str, key: str, model: str) -> str:
    """A command that asks ``model`` something, as one line for any POSIX shell."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Say hello in one sentence."}],
        "max_tokens": 64,
    }
    parts = [
        *("curl", "-s", f"{base_url}/v1/chat/completions"),
        *("-H", f"Authorization: Bearer {key}"),
        *("-H", "Content-Type: application/json"),
        *("-d", json.dumps(body)),
    ]
    return shlex.join(parts)


def demo_banner(record: DemoRecord, *, model: str) -> str:
    """Addresses, one login per role, one key per business, and a line to paste."""
    logins = {role: record.logins[role] for role in ROLES}
    wide = max(len(name) for name in (*logins, *record.keys)) + 2
    return "\n".join(
        [
            "",
            "Fairlane is running.",
            "",
            f"  Console  {record.console_url}/",
            f"  Gateway  {record.gateway_url}/v1",
            "",
            "  Sign in as (user name, password)",
            *(f"    {login.username:<{wide}}{login.password}" for login in logins.values()),
            "",
            "  API keys",
            *(f"    {business:<{wide}}{key}" for business, key in record.keys.items()),
            "",
            "  Try it",
            f"    {curl_line(record.gateway_url, first_key(record.keys), model)}",
            "",
            "  Ctrl-C stops everything; logins and keys stay the same next time.",
            "",
        ]
    )


def plain_banner(base_url: str, python: str) -> str:
    """The same without demo data: how to get in, and how to get going."""
    return "\n".join(
        [
            "",
            "Fairlane is running, with no demo data.",
            "",
            f"  Console  {base_url}/",
            f"  Gateway  {base_url}/v1",
            "",
            "  In another terminal, in this folder",
            f"    {python} manage.py createsuperuser      an administrator to sign in as",
            f"    {python} manage.py fleet apply FILE     pools, models, replicas, businesses",
            f"    {python} manage.py key create BUSINESS  an API key, shown once",
            "",
            "  Ctrl-C stops everything.",
            "",
        ]
    )


def first_key(keys: Mapping[str, str]) -> str:
    """The key that the printed line uses: the first business of the fleet file."""
    return next(iter(keys.values()))
