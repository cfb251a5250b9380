"""Addresses of the WebSockets."""

from django.urls import path

from .consumers import LiveConsumer

# A route may lead to any callable; Django's own types know of views alone.
websocket_urlpatterns = [path("ws/live/", LiveConsumer.as_asgi())]  # type: ignore[arg-type]
