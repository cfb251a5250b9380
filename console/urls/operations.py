"""Addresses of the operators' pages."""

from django.urls import path

from console.views import operations
from console.views.policy import edit, trials, versions

urlpatterns = [
    path("ops/live/", operations.live, name="live"),
    path("ops/policy/", versions.policies, name="policy"),
    path("ops/policy/import/", versions.import_file, name="policy-import"),
    path("ops/policy/edit/<int:number>/", edit.edit, name="policy-edit"),
    path("ops/policy/<int:number>/", versions.version, name="policy-version"),
    path("ops/policy/<int:number>/export/", versions.export, name="policy-export"),
    path("ops/policy/<int:number>/activate/", versions.activate_version, name="policy-activate"),
    path("ops/policy/<int:number>/what-if/", trials.ask, name="policy-what-if"),
    path("ops/policy/<int:number>/canary/", trials.begin_canary, name="policy-canary"),
    path("ops/what-if/<int:pk>/", trials.what_if, name="what-if"),
    path("ops/canary/<int:pk>/end/", trials.stop_canary, name="canary-end"),
]
