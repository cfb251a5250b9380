"""The Django admin: people and their places, and a look at what is on record.

What the request path depends on is not edited here: businesses, keys and the fleet change
through services, which write the audit trail and tell the running gateway.
"""

from typing import TYPE_CHECKING

from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from console.models import ManagementToken, SignInAttempt, User
from console.services.tokens import revoke_token
from metering.models import AuditEntry, Business, Membership, SigningKey
from metering.services.credentials import rotate_signing_key

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


@admin.register(SigningKey)
class SigningKeyAdmin(ReadOnlyAdmin):
    """What tier credentials are signed with; private halves are never shown."""

    list_display = ["kid", "status", "created_at", "retired_at"]
    actions = ["rotate"]

    @admin.action(description=_("Sign with a new key from now on"))
    def rotate(self, request: HttpRequest, queryset: QuerySet[Model]) -> None:
        """Whichever are chosen: there is one active key, and it is replaced."""
        assert isinstance(request.user, User), "the admin knows who is there"
        key = rotate_signing_key(actor=request.user)
        text = _("Credentials are signed with %(kid)s from now on.") % {"kid": key.kid}
        self.message_user(request, text, messages.SUCCESS)


@admin.register(ManagementToken)
class ManagementTokenAdmin(ReadOnlyAdmin):
    """Whose programs may use the REST API."""

    list_display = ["prefix", "user", "name", "expires_at", "revoked_at", "last_used_at"]
    list_select_related = ["user"]
    actions = ["revoke"]

    @admin.action(description=_("Revoke"))
    def revoke(self, request: HttpRequest, queryset: QuerySet[ManagementToken]) -> None:
        """Withdraw the chosen ones for good."""
        assert isinstance(request.user, User), "the admin knows who is there"
        for token in queryset:
            revoke_token(token, actor=request.user)


@admin.register(SignInAttempt)
class SignInAttemptAdmin(ReadOnlyAdmin):
    """Who is held off; deleting attempts lets somebody try again at once."""

    list_display = ["username", "address", "at"]
    search_fields = ["username"]

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Administrators alone come here."""
        return True
