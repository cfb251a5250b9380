"""Django settings: one small module a topic, all values from the environment."""

from .apps import *  # noqa: F403
from .base import *  # noqa: F403
from .data import *  # noqa: F403
from .fairlane import *  # noqa: F403
from .logs import *  # noqa: F403
from .security import *  # noqa: F403
