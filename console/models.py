"""People."""

from django.contrib.auth.models import AbstractUser
from django.db import models


class User(AbstractUser):
    """Somebody who signs in.

    ``role`` decides the first page and which parts of the console exist for them;
    an owner's reach inside a business is their Membership.
    """

    class Role(models.TextChoices):
        """The four kinds of people the console is made for."""

        OWNER = "owner"
        OPERATOR = "operator"
        FINANCE = "finance"
        ADMIN = "admin"

    role = models.CharField(max_length=8, choices=Role.choices, default=Role.OWNER)


class SignInAttempt(models.Model):
    """A sign-in that has not succeeded; a success removes those of its name and address."""

    username = models.CharField(max_length=150)
    address = models.GenericIPAddressField()
    at = models.DateTimeField(db_index=True)

    class Meta:
        indexes = [models.Index(fields=["username", "-at"], name="sign_in_username_at")]

    def __str__(self) -> str:
        return f"{self.username} from {self.address}"
