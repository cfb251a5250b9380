"""People, and what lets a program act for one of them."""

from typing import Any, ClassVar

from django.contrib.auth.models import AbstractUser, UserManager
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.utils.translation import gettext_lazy as _


class PeopleManager(UserManager["User"]):
    """Makes people; ``manage.py createsuperuser`` makes administrators."""

    # Migrations are history, and must not follow what this class becomes.
    use_in_migrations = False

    def create_superuser(
        self,
        username: str,
        email: str | None = None,
        password: str | None = None,
        **extra_fields: Any,
    ) -> "User":
        """Django's own, with the role that belongs to those rights."""
        extra_fields.setdefault("role", User.Role.ADMIN)
        return super().create_superuser(username, email, password, **extra_fields)


class User(AbstractUser):
    """Somebody who signs in.

    ``role`` decides the first page and which parts of the console exist for them;
    an owner's reach inside a business is their Membership.
    """

    class Role(models.TextChoices):
        """The four kinds of people the console is made for."""

        OWNER = "owner", _("Owner")
        OPERATOR = "operator", _("Operator")
        FINANCE = "finance", _("Finance")
        ADMIN = "admin", _("Administrator")

    role = models.CharField(max_length=8, choices=Role.choices, default=Role.OWNER)

    objects: ClassVar[PeopleManager] = PeopleManager()


class SignOn(models.Model):
    """Who ``user`` is to the OpenID Connect provider that vouches for them."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="sign_on")
    issuer = models.CharField(max_length=500)
    subject = models.CharField(max_length=255)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="sign_on_once"),
        ]

    def __str__(self) -> str:
        return f"{self.subject} of {self.issuer}"


class DemoEntry(models.Model):
    """A row that the demo has made, by its ``kind`` and primary key. ``detail``: the address that a
    replica was given."""

    class Kind(models.TextChoices):
        """What it is a row of."""

        REPLICA = "replica"
        MODEL = "model"
        BUSINESS = "business"
        PERSON = "person"

    kind = models.CharField(max_length=8, choices=Kind.choices)
    row = models.BigIntegerField()
    detail = models.CharField(max_length=500, blank=True, default="")

    class Meta:
        verbose_name_plural = "demo entries"
        constraints = [
            models.UniqueConstraint(fields=["kind", "row"], name="demo_entry_once"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.row}"


class SignInAttempt(models.Model):
    """A sign-in that has not succeeded; a success removes those of its name and address."""

    username = models.CharField(max_length=150)
    address = models.GenericIPAddressField()
    at = models.DateTimeField(db_index=True)

    class Meta:
        indexes = [models.Index(fields=["username", "-at"], name="sign_in_username_at")]

    def __str__(self) -> str:
        return f"{self.username} from {self.address}"


class ManagementToken(models.Model):
    """Lets a program use the REST API as ``user``, within ``scopes``, until it expires.

    Kept like an API key: ``digest`` is the HMAC under the key pepper (32 bytes), ``prefix`` what
    people may see. ``scopes`` are texts such as ``keys:write``; writing includes reading.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="management_tokens")
    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=16)
    digest = models.BinaryField(max_length=32, unique=True, editable=False)
    scopes = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.prefix}… ({self.name})"


class IdempotentWrite(models.Model):
    """What a write with an ``Idempotency-Key`` came to, so that its repetition gets the same
    answer. Committed together with the write; ``answer`` has no secret in it."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=255)
    # SHA-256 of method, path and body, in hexadecimal.
    fingerprint = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(default=0)
    answer = models.JSONField(null=True, encoder=DjangoJSONEncoder)
    at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "key"], name="idempotent_write_once"),
        ]

    def __str__(self) -> str:
        return f"{self.key} of {self.user}"
