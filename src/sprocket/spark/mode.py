"""What a query makes of damage."""

from enum import Enum


class Mode(Enum):
    """What to do with damage in files; Spark's own words."""

    FAILFAST = "FAILFAST"
    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"
