"""Two kinds of integers that must not be mixed.

An *offset* never stands alone: bytes into the log and messages into a queue are different things.
"""

from typing import NewType

PhysicalOffset = NewType("PhysicalOffset", int)
"""Bytes from the beginning of the CommitLog, across all its files."""

QueueOffset = NewType("QueueOffset", int)
"""Messages from the beginning of one queue; the unit lies at this number times 20 bytes."""

ANYWHERE = PhysicalOffset(1 << 62)
"""Behind any place of a log."""
