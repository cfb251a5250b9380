"""What owners ask of operations about how urgent they may be."""

from django.conf import settings
from django.db import models

from .business import Business, Grade


class GradeRequest(models.Model):
    """A business wants another grade, until operations has decided."""

    class Status(models.TextChoices):
        """Open until it is decided or taken back."""

        OPEN = "open"
        APPROVED = "approved"
        DECLINED = "declined"
        WITHDRAWN = "withdrawn"

    business = models.ForeignKey(Business, on_delete=models.CASCADE, related_name="grade_requests")
    grade = models.CharField(max_length=8, choices=Grade.choices)
    reason = models.CharField(max_length=500, blank=True, default="")
    status = models.CharField(max_length=9, choices=Status.choices, default=Status.OPEN)
    # What operations said to it.
    answer = models.CharField(max_length=500, blank=True, default="")
    asked_at = models.DateTimeField(auto_now_add=True)
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    decided_at = models.DateTimeField(null=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["business"],
                condition=models.Q(status="open"),
                name="grade_request_one_open",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} request of {self.business}"
