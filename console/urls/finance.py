"""Addresses of finance's pages."""

from django.urls import path

from console.views import finance, prices, reconciliation

urlpatterns = [
    path("finance/bills/", finance.bills, name="finance-bills"),
    path("finance/bills/close/", finance.close, name="finance-close"),
    path("finance/bills/close/<slug:month>/", finance.closing, name="finance-closing"),
    path("finance/bills/archive/", finance.make_archive, name="finance-archive-make"),
    path("finance/bills/archive/<int:pk>/", finance.archive, name="finance-archive"),
    path("finance/prices/", prices.prices, name="finance-prices"),
    path("finance/prices/<int:version>/withdraw/", prices.withdraw, name="finance-prices-withdraw"),
    path("finance/credit-notes/", finance.credit_notes, name="finance-credit-notes"),
    path("finance/reconciliation/", reconciliation.reconciliation, name="finance-reconciliation"),
    path("finance/usage/", finance.usage, name="finance-usage"),
]
