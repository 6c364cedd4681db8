"""Commands that serve until they are told to stop, and the settings that they go by."""

from sprocket.cli.servers import settings, up

__all__ = ["settings", "up"]
