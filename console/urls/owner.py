"""Addresses of an owner's pages."""

from django.urls import path

from console.views import alerts, bills, credentials, keys, members, overview, playground, quotas

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("keys/", keys.keys, name="keys"),
    path("keys/<int:pk>/rotate/", keys.rotate, name="key-rotate"),
    path("keys/<int:pk>/revoke/", keys.revoke, name="key-revoke"),
    path("credentials/", credentials.credentials, name="credentials"),
    path("credentials/<uuid:jti>/narrow/", credentials.narrow, name="credential-narrow"),
    path("credentials/<uuid:jti>/revoke/", credentials.revoke, name="credential-revoke"),
    path("credentials/grade/", credentials.ask_grade, name="grade-ask"),
    path("credentials/grade/withdraw/", credentials.withdraw_grade, name="grade-withdraw"),
    path("quotas/", quotas.quotas, name="quotas"),
    path("quotas/lighter/", quotas.lighter, name="quota-lighter"),
    path("quotas/request/withdraw/", quotas.withdraw, name="quota-withdraw"),
    path("quotas/alerts/", alerts.alerts, name="alerts"),
    path("quotas/alerts/<int:pk>/remove/", alerts.remove, name="alert-remove"),
    path("bills/", bills.bills, name="bills"),
    path("bills/<int:number>/", bills.bill, name="bill"),
    path("bills/<int:number>/<slug:suffix>/", bills.download, name="bill-download"),
    path("members/", members.members, name="members"),
    path("members/<int:pk>/change/", members.change, name="member-change"),
    path("members/<int:pk>/remove/", members.remove, name="member-remove"),
    path("try/", playground.page, name="try"),
    path("try/pass/", playground.issue_pass, name="try-pass"),
]
