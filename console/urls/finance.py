"""Addresses of finance's pages."""

from django.urls import path

from console.views import finance

urlpatterns = [
    path("finance/usage/", finance.usage, name="finance-usage"),
]
