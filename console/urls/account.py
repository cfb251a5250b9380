"""Addresses that belong to no role: signing in and out, language, choice of business."""

from django.contrib.auth.views import LogoutView
from django.urls import path
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_POST
from django.views.i18n import JavaScriptCatalog, set_language

from console.views import account, sign_on, tokens

urlpatterns = [
    path("accounts/login/", account.SignIn.as_view(), name="login"),
    path("accounts/sign-on/", sign_on.begin, name="sign-on"),
    path("accounts/sign-on/return/", sign_on.finish, name="sign-on-return"),
    path("accounts/logout/", LogoutView.as_view(), name="logout"),
    path("accounts/language/", require_POST(set_language), name="set-language"),
    path(
        "accounts/texts.js",
        cache_control(private=True, max_age=3_600)(JavaScriptCatalog.as_view()),
        name="script-texts",
    ),
    path("accounts/tokens/", tokens.tokens, name="tokens"),
    path("accounts/tokens/<int:pk>/revoke/", tokens.revoke, name="token-revoke"),
    path("accounts/business/", account.choose_business, name="choose-business"),
]
