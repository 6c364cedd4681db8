"""Where a product keeps its files, and what time it is there."""

from msgspec import Struct

from sprocket.base.clock import Clock
from sprocket.base.disk import Disk


class Place(Struct, frozen=True):
    """A folder on a disk, and a clock."""

    disk: Disk
    folder: str
    clock: Clock
