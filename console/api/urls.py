"""Addresses of the API."""

from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView
from rest_framework.routers import SimpleRouter

from .docs import docs
from .routes import ROUTES

router = SimpleRouter()
for name, views in ROUTES:
    router.register(name, views, basename=f"api-{name}")

urlpatterns = [
    path("v1/", include(router.urls)),
    path("v1/schema/", SpectacularAPIView.as_view(), name="api-schema"),
    path("docs/", docs, name="api-docs"),
]
