"""Tier credentials: signed tokens that say how urgent their holder may be."""

import uuid

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import models

from .business import Business, Grade, Lane


class SigningKey(models.Model):
    """An Ed25519 key pair. At most one is active and signs; retired ones still verify.

    ``sealed`` is the private key, encrypted (metering/signing.py); a retired key has none.
    """

    class Status(models.TextChoices):
        """Signs and verifies, or only verifies."""

        ACTIVE = "active"
        RETIRED = "retired"

    # The JWK thumbprint of the public key.
    kid = models.CharField(max_length=43, unique=True)
    public = models.BinaryField(max_length=32, editable=False)
    sealed = models.BinaryField(max_length=128, editable=False)
    status = models.CharField(max_length=8, choices=Status.choices, default=Status.ACTIVE)
    created_at = models.DateTimeField(auto_now_add=True)
    retired_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["status"],
                condition=models.Q(status="active"),
                name="signing_key_one_active",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kid} ({self.status})"


class TierCredential(models.Model):
    """What was signed, so that it can be looked up and revoked. The token itself is not kept.

    Times have no parts of a second, as in the token.
    """

    jti = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    business = models.ForeignKey(Business, on_delete=models.CASCADE, related_name="credentials")
    parent = models.ForeignKey(
        "self", on_delete=models.CASCADE, null=True, blank=True, related_name="children"
    )
    signing_key = models.ForeignKey(
        SigningKey, on_delete=models.PROTECT, related_name="credentials"
    )
    grade = models.CharField(max_length=8, choices=Grade.choices)
    ceiling = models.CharField(max_length=2, choices=Lane.choices)
    # The microservice it is for; empty: any.
    svc = models.CharField(max_length=80, blank=True, default="")
    issued_at = models.DateTimeField()
    not_before = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
    )
    # null: every model of the business; a list: these public names only. Last, since inside
    # the class body it hides the module of the same name.
    models = models.JSONField(null=True, blank=True, default=None)

    class Meta:
        ordering = ["-issued_at", "-pk"]

    def __str__(self) -> str:
        return str(self.jti)


class CredentialQuota(models.Model):
    """Limits of a credential that is the bearer itself, beside those of its business.

    null is unlimited and 0 is blocked, as in Quota.
    """

    credential = models.OneToOneField(
        TierCredential, on_delete=models.CASCADE, related_name="quota"
    )
    requests_per_s = models.FloatField(null=True, blank=True, validators=[MinValueValidator(0)])
    burst = models.PositiveIntegerField(null=True, blank=True)
    tokens_per_min = models.PositiveBigIntegerField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "credential quotas"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(requests_per_s__gte=0) | models.Q(requests_per_s=None),
                name="credential_quota_rate_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"quota of {self.credential}"
