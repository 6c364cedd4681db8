"""What a channel is asked for, given to the broker's services, and what they say as bytes.

`ChannelMethods` serves a channel; `ChannelWriter` turns what happens there into frames.
"""

from sprocket.rabbitmq.server.handlers.channel_methods import ChannelMethods
from sprocket.rabbitmq.server.handlers.channel_writer import ChannelWriter

__all__ = ["ChannelMethods", "ChannelWriter"]
