"""The files of a virtual host besides its queues' own: messages, and what a clean stop leaves.

`entries` reads and writes the messages of the shared store, `recovery_terms` what each queue left,
`saved_tables` and `clean_stop` what the store itself left.
"""

from sprocket.rabbitmq.codec.store import clean_stop, entries, recovery_terms, saved_tables
from sprocket.rabbitmq.codec.store.entries import Gap, ReadAt, StoreEntry
from sprocket.rabbitmq.codec.store.recovery_terms import QueueTerms, TermsFile
from sprocket.rabbitmq.codec.store.saved_tables import FileSummary, MessageLocation

__all__ = [
    "FileSummary",
    "Gap",
    "MessageLocation",
    "QueueTerms",
    "ReadAt",
    "StoreEntry",
    "TermsFile",
    "clean_stop",
    "entries",
    "recovery_terms",
    "saved_tables",
]
