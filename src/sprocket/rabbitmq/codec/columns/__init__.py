"""Many messages of RabbitMQ at once: where the parts of each lie, as columns of positions.

`cursor` moves along all of them together; `message_terms`, `properties` and `header_entries` follow
one layout each, `store_entries` a file of the message store. What they cannot follow they say, and
the functions that read a single one have the last word. Needs numpy.
"""

from sprocket.rabbitmq.codec.columns.cursor import Ints, Mask, Octets, Spans, gather
from sprocket.rabbitmq.codec.columns.header_entries import HeaderEntries, header_entries
from sprocket.rabbitmq.codec.columns.message_terms import ListSpans, TermSpans, message_terms
from sprocket.rabbitmq.codec.columns.properties import PropertySpans, property_spans
from sprocket.rabbitmq.codec.columns.store_entries import StoreEntries, store_entries

__all__ = [
    "HeaderEntries",
    "Ints",
    "ListSpans",
    "Mask",
    "Octets",
    "PropertySpans",
    "Spans",
    "StoreEntries",
    "TermSpans",
    "gather",
    "header_entries",
    "message_terms",
    "property_spans",
    "store_entries",
]
