"""Addresses of the console's pages."""

from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.templatetags.static import static
from django.urls import path
from django.views.generic import RedirectView

from console.views import account, finance, keys, operations, overview

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("keys/", keys.keys, name="keys"),
    path("keys/<int:pk>/rotate/", keys.rotate, name="key-rotate"),
    path("keys/<int:pk>/revoke/", keys.revoke, name="key-revoke"),
    path("ops/live/", operations.live, name="live"),
    path("finance/usage/", finance.usage, name="finance-usage"),
    path("accounts/login/", account.SignIn.as_view(), name="login"),
    path("accounts/logout/", LogoutView.as_view(), name="logout"),
    path("accounts/business/", account.choose_business, name="choose-business"),
    # One way in, with one throttle, for everybody.
    path("admin/login/", account.admin_sign_in),
    path("admin/", admin.site.urls),
    # Pages that are not ours, such as the admin's, make browsers ask for it here.
    path("favicon.ico", RedirectView.as_view(url=static("img/fairlane.svg"))),
]
