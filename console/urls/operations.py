"""Addresses of the operators' pages."""

from django.urls import path

from console.views import operations

urlpatterns = [
    path("ops/live/", operations.live, name="live"),
]
