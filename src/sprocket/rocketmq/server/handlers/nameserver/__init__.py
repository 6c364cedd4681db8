"""The NameServer's requests: what brokers tell it, what clients and tools ask.

Each class has a table: a row for each code, with the header and the function that answers.
"""

from sprocket.rocketmq.server.handlers.nameserver.config import NameConfigHandlers
from sprocket.rocketmq.server.handlers.nameserver.lookups import NameLookupHandlers
from sprocket.rocketmq.server.handlers.nameserver.registration import NameHandlers

__all__ = ["NameConfigHandlers", "NameHandlers", "NameLookupHandlers"]
