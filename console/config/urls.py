"""Addresses of the console: pages by role, REST, and the Django admin."""

from django.contrib import admin
from django.templatetags.static import static
from django.urls import include, path
from django.views.generic import RedirectView

from console.views import account

urlpatterns = [
    path("", include("console.urls.owner")),
    path("", include("console.urls.operations")),
    path("", include("console.urls.finance")),
    path("", include("console.urls.account")),
    path("api/", include("console.api.urls")),
    # One way in, with one throttle, for everybody.
    path("admin/login/", account.admin_sign_in, name="admin-sign-in"),
    path("admin/", admin.site.urls),
    # Pages that are not ours, such as the admin's, make browsers ask for it here.
    path("favicon.ico", RedirectView.as_view(url=static("img/fairlane.svg")), name="favicon"),
]
