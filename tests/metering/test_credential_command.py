"""``credential issue``, ``narrow``, ``revoke`` and ``rotate``."""

import io
from datetime import timedelta

import jwt
import pytest
from django.core.management import CommandError, call_command

from metering.models import AuditEntry, Business, SigningKey, TierCredential

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def business() -> Business:
    return Business.objects.create(name="risk-audit", grade="vip", ceiling="P0")


def run(*words: str) -> tuple[str, str]:
    """Standard output and standard error of one command."""
    out, err = io.StringIO(), io.StringIO()
    call_command("credential", *words, stdout=out, stderr=err)
    return out.getvalue().strip(), err.getvalue().strip()


def refused(*words: str) -> str:
    err = io.StringIO()
    with pytest.raises(SystemExit) as stopped:
        call_command("credential", *words, stderr=err)
    assert stopped.value.code == 1
    return err.getvalue().strip()


def test_issue_prints_the_token_alone_on_standard_output() -> None:
    token, told = run(
        *("issue", "risk-audit", "--hours", "1.5", "--ceiling", "P1", "--grade", "basic"),
        *("--model", "chat", "--model", "rank", "--svc", "risk"),
    )
    row = TierCredential.objects.get()
    assert jwt.decode(token, options={"verify_signature": False})["jti"] == str(row.jti)
    assert told.startswith(f"{row.jti} until ")
    assert (row.ceiling, row.grade, row.models, row.svc) == (
        "P1",
        "basic",
        ["chat", "rank"],
        "risk",
    )
    assert row.expires_at - row.not_before == timedelta(hours=1.5)
    entry = AuditEntry.objects.get()
    assert (entry.source, entry.action) == ("command line", "credential.issue")


def test_narrow_and_revoke() -> None:
    run("issue", "risk-audit", "--hours", "2")
    root = TierCredential.objects.get()
    token, _ = run("narrow", str(root.jti), "--ceiling", "P2")
    said = jwt.decode(token, options={"verify_signature": False})
    assert (said["parent"], said["ceiling"]) == (str(root.jti), "P2")
    assert "outlive" in refused("narrow", str(root.jti), "--hours", "3")
    assert run("revoke", str(root.jti))[0] == "2 revoked"
    assert run("revoke", str(root.jti))[0] == "0 revoked"


def test_rotate_prints_the_new_key_s_id() -> None:
    run("issue", "risk-audit", "--hours", "2")
    kid, _ = run("rotate")
    assert SigningKey.objects.get(status="active").kid == kid


def test_what_is_not_there_is_named() -> None:
    assert refused("issue", "nobody", "--hours", "1") == "there is no business nobody"
    unknown = "00000000-0000-4000-8000-000000000000"
    assert refused("revoke", unknown) == f"there is no credential {unknown}"
    assert "lifetime" in refused("issue", "risk-audit", "--hours", "0")
    for hours in ("soon", "nan", "1e300"):
        with pytest.raises(CommandError, match="--hours"):
            run("issue", "risk-audit", "--hours", hours)
