"""``credential issue``, ``narrow``, ``revoke`` and ``rotate``: tier credentials of a business."""

from argparse import ArgumentParser
from datetime import timedelta
from uuid import UUID

from django.core.management.base import BaseCommand, CommandParser

from metering.errors import CredentialRequestError, RefusedError
from metering.models import Business, Grade, Lane, TierCredential
from metering.services.credentials import (
    issue_credential,
    narrow_credential,
    revoke_credential,
    rotate_signing_key,
)

SOURCE = "command line"


class Command(BaseCommand):
    """A problem goes to standard error as one line and ends with exit status 1."""

    help = "Issue, narrow or revoke tier credentials, or change the key that signs them."
    # Those look at pages and settings, of which a credential needs none.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """The four forms of the command."""
        forms = parser.add_subparsers(dest="form", required=True)
        issue = forms.add_parser("issue", help="make a credential and print it: it is shown once")
        issue.add_argument("business")
        _terms(issue)
        issue.add_argument("--hours", type=_hours, required=True, help="how long it is valid")
        narrow = forms.add_parser("narrow", help="make one that grants a part of another")
        narrow.add_argument("parent", metavar="JTI", type=UUID)
        _terms(narrow)
        narrow.add_argument("--hours", type=_hours, help="how long; else until its parent's end")
        revoke = forms.add_parser("revoke", help="withdraw a credential and its descendants")
        revoke.add_argument("parent", metavar="JTI", type=UUID)
        forms.add_parser("rotate", help="sign with a new key; what is signed stays valid")

    def handle(self, *_args: object, **options: object) -> None:
        """Run one form."""
        try:
            if options["form"] == "rotate":
                self.stdout.write(rotate_signing_key(actor=None, source=SOURCE).kid)
            elif options["form"] == "revoke":
                count = revoke_credential(_held(options), actor=None, source=SOURCE)
                self.stdout.write(f"{count} revoked")
            else:
                row, token = _made(options)
                self.stderr.write(f"{row.jti} until {row.expires_at:%Y-%m-%d %H:%M:%S} UTC")
                self.stdout.write(token)
        except RefusedError as error:
            self.stderr.write(str(error))
            raise SystemExit(1) from None


def _terms(parser: ArgumentParser) -> None:
    """What a credential may say; what is left out is the business's or the parent's."""
    parser.add_argument("--grade", default="", choices=Grade.values)
    parser.add_argument("--ceiling", default="", choices=Lane.values, help="its best lane")
    parser.add_argument("--model", action="append", dest="models", metavar="NAME")
    parser.add_argument("--svc", default="", help="the service that it is for")


def _hours(text: str) -> timedelta:
    try:
        return timedelta(hours=float(text))
    except OverflowError:
        raise ValueError from None


def _made(options: dict[str, object]) -> tuple[TierCredential, str]:
    models, hours = options["models"], options["hours"]
    names = [str(name) for name in models] if isinstance(models, list) else None
    lifetime = hours if isinstance(hours, timedelta) else None
    grade, ceiling, svc = (str(options[name]) for name in ("grade", "ceiling", "svc"))
    if options["form"] == "narrow":
        return narrow_credential(
            _held(options),
            actor=None,
            source=SOURCE,
            grade=grade,
            ceiling=ceiling,
            models=names,
            svc=svc,
            lifetime=lifetime,
        )
    business = Business.objects.filter(name=options["business"]).first()
    if business is None:
        raise RefusedError(f"there is no business {options['business']}")
    return issue_credential(
        business,
        actor=None,
        source=SOURCE,
        grade=grade,
        ceiling=ceiling,
        models=names,
        svc=svc,
        lifetime=lifetime or timedelta(0),
    )


def _held(options: dict[str, object]) -> TierCredential:
    found = TierCredential.objects.filter(jti=str(options["parent"])).first()
    if found is None:
        raise CredentialRequestError(f"there is no credential {options['parent']}")
    return found
