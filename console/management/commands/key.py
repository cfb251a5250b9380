"""``key create``, ``key list`` and ``key revoke``: API keys of a business."""

from django.core.management.base import BaseCommand, CommandParser

from metering.errors import RefusedError
from metering.models import ApiKey, Business, Lane
from metering.services.keys import create_key, revoke_key

SOURCE = "command line"


class Command(BaseCommand):
    """A problem goes to standard error as one line and ends with exit status 1."""

    help = "Create, list or revoke API keys."
    # Those look at pages and settings, of which a key needs none.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """The three forms of the command."""
        forms = parser.add_subparsers(dest="form", required=True)
        create = forms.add_parser("create", help="make a key and print it: it is shown once")
        create.add_argument("business")
        create.add_argument("--name", default="command line", help="what people know it by")
        create.add_argument("--ceiling", default="", choices=Lane.values, help="its best lane")
        listing = forms.add_parser("list", help="list the keys of a business, newest first")
        listing.add_argument("business")
        revoke = forms.add_parser("revoke", help="withdraw a key for good")
        revoke.add_argument("business")
        revoke.add_argument("prefix", help="the beginning of the key, as the list shows it")

    def handle(self, *_args: object, **options: object) -> None:
        """Run one form."""
        try:
            business = _business(str(options["business"]))
            if options["form"] == "create":
                _, key = create_key(
                    business,
                    str(options["name"]),
                    actor=None,
                    source=SOURCE,
                    ceiling=str(options["ceiling"]),
                )
                self.stdout.write(key)
            elif options["form"] == "list":
                for row in business.keys.all():
                    self.stdout.write(_line(row))
            else:
                revoke_key(_key(business, str(options["prefix"])), actor=None, source=SOURCE)
        except RefusedError as error:
            self.stderr.write(str(error))
            raise SystemExit(1) from None


def _business(name: str) -> Business:
    found = Business.objects.filter(name=name).first()
    if found is None:
        raise RefusedError(f"there is no business {name}")
    return found


def _key(business: Business, prefix: str) -> ApiKey:
    """The one working key with this prefix."""
    found = list(business.keys.filter(prefix=prefix, revoked_at=None)[:2])
    if len(found) != 1:
        how_many = "no working key" if not found else "more than one key"
        raise RefusedError(f"{business.name} has {how_many} {prefix}")
    return found[0]


def _line(row: ApiKey) -> str:
    if row.revoked_at is not None:
        state = f"revoked {row.revoked_at:%Y-%m-%d %H:%M}"
    elif row.expires_at is not None:
        state = f"until {row.expires_at:%Y-%m-%d %H:%M}"
    else:
        state = "works"
    used = "never" if row.last_used_at is None else f"{row.last_used_at:%Y-%m-%d %H:%M}"
    return f"{row.prefix}  {row.name}  {state}  last used {used}"
