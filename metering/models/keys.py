"""API keys: shown once, kept as a keyed hash."""

from django.conf import settings
from django.db import models

from .business import Business, Lane


class ApiKey(models.Model):
    """A secret that speaks for one business.

    ``digest`` is HMAC-SHA256 of the key under the installation's pepper (32 bytes);
    ``prefix`` is what people may see of it.
    """

    business = models.ForeignKey(Business, on_delete=models.CASCADE, related_name="keys")
    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=16)
    digest = models.BinaryField(max_length=32, unique=True, editable=False)
    ceiling = models.CharField(max_length=2, choices=Lane.choices, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
    )
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.prefix}… ({self.name})"
