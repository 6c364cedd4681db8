"""Tables that grow: a snapshot, and a journal of what came since.

A new entry costs a line of the journal; the snapshot is written piece by piece in the background.
"""

from sprocket.base.tables import journal
from sprocket.base.tables.journal import Journal, Journaled, JournalSync
from sprocket.base.tables.snapshot import BACKUP, BackedFile

__all__ = ["BACKUP", "BackedFile", "Journal", "JournalSync", "Journaled", "journal"]
