"""Addresses of an owner's pages."""

from django.urls import path

from console.views import keys, overview

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("keys/", keys.keys, name="keys"),
    path("keys/<int:pk>/rotate/", keys.rotate, name="key-rotate"),
    path("keys/<int:pk>/revoke/", keys.revoke, name="key-revoke"),
]
