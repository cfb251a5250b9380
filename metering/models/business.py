"""Businesses, who belongs to them, and what they may use."""

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models

NAME_PATTERN = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
NAME = RegexValidator(
    rf"\A{NAME_PATTERN}\Z",
    "Lower-case letters, digits and hyphens, at most 63, not at the edges.",
)


class Grade(models.TextChoices):
    """How important a tenant is, by contract."""

    VIP = "vip"
    PREMIUM = "premium"
    BASIC = "basic"


class Lane(models.TextChoices):
    """Queues by urgency, most urgent first."""

    P0 = "P0"
    P1 = "P1"
    P2 = "P2"


class Realtime(models.TextChoices):
    """How soon somebody waits for the answer."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Business(models.Model):
    """A tenant: the unit of identity, fairness, quota and bill."""

    name = models.CharField(max_length=63, unique=True, validators=[NAME])
    tags = models.JSONField(default=list, blank=True)
    grade = models.CharField(max_length=8, choices=Grade.choices, default=Grade.BASIC)
    ceiling = models.CharField(max_length=2, choices=Lane.choices, default=Lane.P1)
    realtime = models.CharField(max_length=8, choices=Realtime.choices, blank=True, default="")
    offline = models.BooleanField(default=False)
    billing_sla = models.BooleanField(default=False)
    weight = models.FloatField(default=1.0, validators=[MinValueValidator(0.001)])
    # Whether a lighter model may answer in place of a refusal.
    degrade = models.BooleanField(default=False, db_default=False)
    latency_budget_ms = models.PositiveIntegerField(null=True, blank=True)
    suspended_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    # null: every model of the catalogue; a list: these public names only. Last, since inside
    # the class body it hides the module of the same name.
    models = models.JSONField(null=True, blank=True, default=None)

    class Meta:
        ordering = ["name"]
        verbose_name_plural = "businesses"

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """A person's place in a business."""

    class Role(models.TextChoices):
        """An owner changes things, a member looks."""

        OWNER = "owner"
        MEMBER = "member"

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships"
    )
    business = models.ForeignKey(Business, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=8, choices=Role.choices, default=Role.MEMBER)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "business"], name="membership_once"),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.business}"


class Quota(models.Model):
    """Limits of a business, or the envelope inside which its owner may set them.

    null is unlimited and 0 is blocked, for every limit.
    """

    class Kind(models.TextChoices):
        """What the row bounds: requests, or the owner's own changes."""

        LIMIT = "limit"
        ENVELOPE = "envelope"

    business = models.ForeignKey(Business, on_delete=models.CASCADE, related_name="quotas")
    kind = models.CharField(max_length=8, choices=Kind.choices, default=Kind.LIMIT)
    requests_per_s = models.FloatField(null=True, blank=True, validators=[MinValueValidator(0)])
    burst = models.PositiveIntegerField(null=True, blank=True)
    tokens_per_min = models.PositiveBigIntegerField(null=True, blank=True)
    running = models.PositiveIntegerField(null=True, blank=True)
    queued = models.PositiveIntegerField(null=True, blank=True)
    # A ratio of the fleet's GPU time, 0 to 1.
    gpu_share = models.FloatField(
        null=True, blank=True, validators=[MinValueValidator(0), MaxValueValidator(1)]
    )
    monthly_budget = models.DecimalField(
        max_digits=20, decimal_places=6, null=True, blank=True, validators=[MinValueValidator(0)]
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["business", "kind"], name="quota_once_per_kind"),
            models.CheckConstraint(
                condition=models.Q(requests_per_s__gte=0) | models.Q(requests_per_s=None),
                name="quota_rate_not_negative",
            ),
            models.CheckConstraint(
                condition=models.Q(gpu_share__range=(0, 1)) | models.Q(gpu_share=None),
                name="quota_gpu_share_is_a_ratio",
            ),
            models.CheckConstraint(
                condition=models.Q(monthly_budget__gte=0) | models.Q(monthly_budget=None),
                name="quota_budget_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.business}"
