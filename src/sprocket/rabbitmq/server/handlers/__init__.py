"""What a channel is asked for, given to the broker's services, and what they say as bytes.

`ChannelMethods` serves a channel; `ToldClient` turns what happens there into frames.
"""

from sprocket.rabbitmq.server.handlers.channel_methods import ChannelMethods
from sprocket.rabbitmq.server.handlers.told_client import ToldClient

__all__ = ["ChannelMethods", "ToldClient"]
