"""Addresses of the WebSockets, and the application that serves them.

No middleware is needed around it: the consumer itself looks at Origin and session, and
refuses before any query is made for a stranger.
"""

from channels.routing import URLRouter
from django.urls import path

from .consumers import LiveConsumer

# A route may lead to any callable; Django's own types know of views alone.
websocket_urlpatterns = [path("ws/live/", LiveConsumer.as_asgi())]  # type: ignore[arg-type]
websocket_application = URLRouter(websocket_urlpatterns)  # type: ignore[arg-type]
