"""The one door to the file system, and what stands on it.

`Disk` opens, renames, syncs and locks; `RealDisk` is the system's, tests have a simulated one.
`segments` cut an address space of bytes into files; `files` reads and replaces small ones;
`copying` copies what somebody may be writing;
`nonblocking` ends an attempt where it would have to wait for a read; `steps` is long work that
is done piece by piece, its slow parts on another thread.
"""

from sprocket.base.disk import copying, files, steps
from sprocket.base.disk.disk import Buffer, Disk, Extent, File, Lock, RealDisk
from sprocket.base.disk.files import (
    read_file,
    read_written,
    remove_if_there,
    replace_file,
    sync_file,
    try_room,
)
from sprocket.base.disk.kernel_sync import PendingSync
from sprocket.base.disk.nonblocking import (
    Attempt,
    Fetched,
    Key,
    Missing,
    NonblockingDisk,
    WouldBlock,
    following,
    gather,
    outside,
)
from sprocket.base.disk.segments import (
    NAME_DIGITS,
    OpenFiles,
    Segment,
    SegmentFiles,
    SegmentReader,
    SegmentWindow,
    ShortFile,
    Unreadable,
    create_segment,
    fill_up,
    is_segment_name,
    segment_name,
    short_files,
    written_ranges,
)
from sprocket.base.disk.steps import Call, Steps, StepsTo, advance

__all__ = [
    "NAME_DIGITS",
    "Attempt",
    "Buffer",
    "Call",
    "Disk",
    "Extent",
    "Fetched",
    "File",
    "Key",
    "Lock",
    "Missing",
    "NonblockingDisk",
    "OpenFiles",
    "PendingSync",
    "RealDisk",
    "Segment",
    "SegmentFiles",
    "SegmentReader",
    "SegmentWindow",
    "ShortFile",
    "Steps",
    "StepsTo",
    "Unreadable",
    "WouldBlock",
    "advance",
    "copying",
    "create_segment",
    "files",
    "fill_up",
    "following",
    "gather",
    "is_segment_name",
    "outside",
    "read_file",
    "read_written",
    "remove_if_there",
    "replace_file",
    "segment_name",
    "short_files",
    "steps",
    "sync_file",
    "try_room",
    "written_ranges",
]
