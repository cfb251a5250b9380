"""People."""

from typing import Any, ClassVar

from django.contrib.auth.models import AbstractUser, UserManager
from django.db import models


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

        OWNER = "owner"
        OPERATOR = "operator"
        FINANCE = "finance"
        ADMIN = "admin"

    role = models.CharField(max_length=8, choices=Role.choices, default=Role.OWNER)

    objects: ClassVar[PeopleManager] = PeopleManager()


class SignInAttempt(models.Model):
    """A sign-in that has not succeeded; a success removes those of its name and address."""

    username = models.CharField(max_length=150)
    address = models.GenericIPAddressField()
    at = models.DateTimeField(db_index=True)

    class Meta:
        indexes = [models.Index(fields=["username", "-at"], name="sign_in_username_at")]

    def __str__(self) -> str:
        return f"{self.username} from {self.address}"
