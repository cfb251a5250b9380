"""Addresses of the operators' pages."""

from django.urls import path

from console.views import businesses, fleet, grade_decisions, operations, records
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
    path("ops/fleet/", fleet.fleet, name="fleet"),
    path("ops/fleet/replicas/new/", fleet.replica, name="replica-new"),
    path("ops/fleet/replicas/<int:pk>/", fleet.replica, name="replica"),
    path("ops/fleet/replicas/<int:pk>/<slug:step>/", fleet.replica_step, name="replica-step"),
    path("ops/fleet/pools/new/", fleet.pool, name="pool-new"),
    path("ops/fleet/pools/<int:pk>/", fleet.pool, name="pool"),
    path("ops/fleet/pools/<int:pk>/remove/", fleet.pool_remove, name="pool-remove"),
    path("ops/businesses/", businesses.businesses, name="businesses"),
    path("ops/businesses/requests/<int:pk>/", businesses.decide, name="quota-decide"),
    path("ops/businesses/grades/<int:pk>/", grade_decisions.decide, name="grade-decide"),
    path("ops/businesses/<slug:name>/", businesses.business, name="business"),
    path(
        "ops/businesses/<slug:name>/suspend/", businesses.business_suspend, name="business-suspend"
    ),
    path(
        "ops/businesses/<slug:name>/<slug:what>/",
        businesses.business_change,
        name="business-change",
    ),
    path("ops/decisions/", records.decisions, name="decisions"),
    path("audit/", records.audit, name="audit"),
]
