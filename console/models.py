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
