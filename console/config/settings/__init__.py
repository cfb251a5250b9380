"""Django settings: one small module a topic, all values from the environment."""

import django_stubs_ext

from .api import *  # noqa: F403
from .apps import *  # noqa: F403
from .base import *  # noqa: F403
from .data import *  # noqa: F403
from .fairlane import *  # noqa: F403
from .logs import *  # noqa: F403
from .mail import *  # noqa: F403
from .security import *  # noqa: F403
from .sign_on import *  # noqa: F403
from .tasks import *  # noqa: F403

# Lets Django's generic classes carry the type parameters that strict checking asks for.
django_stubs_ext.monkeypatch()
