"""The Django admin: people and their places, and a look at what is on record.

What the request path depends on is not edited here: businesses, keys and the fleet change
through services, which write the audit trail and tell the running gateway.
"""

from typing import TYPE_CHECKING

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group
from django.db.models import Model
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from console.models import User
from metering.models import AuditEntry, Business, Membership

if TYPE_CHECKING:  # generic for the type checker alone
    Inline = admin.TabularInline[Membership, User]
    People = UserAdmin[User]
    Rows = admin.ModelAdmin[Model]
else:
    Inline, People, Rows = admin.TabularInline, UserAdmin, admin.ModelAdmin


admin.site.site_title = admin.site.site_header = _("Fairlane administration")
admin.site.site_url = "/ops/live/"
# Rights follow from role and membership; groups would only look as if they mattered.
admin.site.unregister(Group)


class MembershipInline(Inline):
    """The businesses of a person."""

    model = Membership
    extra = 0
    autocomplete_fields = ["business"]


@admin.register(User)
class PeopleAdmin(People):
    """People, with their role and memberships."""

    list_display = ["username", "email", "role", "is_active", "is_staff", "last_login"]
    list_filter = ["role", "is_active", "is_staff"]
    fieldsets = [*(UserAdmin.fieldsets or ()), ("Fairlane", {"fields": ["role"]})]
    add_fieldsets = [*UserAdmin.add_fieldsets, ("Fairlane", {"fields": ["role"]})]
    inlines = [MembershipInline]


class ReadOnlyAdmin(Rows):
    """To look at, not to change."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody adds one here."""
        return False

    def has_change_permission(
        self,
        request: HttpRequest,
        obj: Model | None = None,
    ) -> bool:
        """Nobody changes one here."""
        return False

    def has_delete_permission(
        self,
        request: HttpRequest,
        obj: Model | None = None,
    ) -> bool:
        """Nobody deletes one here."""
        return False


@admin.register(Business)
class BusinessAdmin(ReadOnlyAdmin):
    """Tenants."""

    list_display = ["name", "grade", "ceiling", "offline", "suspended_at"]
    search_fields = ["name"]


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    """Who changed what."""

    list_display = ["at", "actor", "source", "action", "business", "target"]
    list_filter = ["action"]
    list_select_related = ["actor"]
