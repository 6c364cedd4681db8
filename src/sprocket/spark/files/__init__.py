"""Folders on any file system: a local disk, S3, HDFS, whatever fsspec opens.

`open_files` returns what reads the file system that a folder lies on, `open_writable` what writes
it, too. Code that reads a folder takes `Files`, the small part of `base.disk.Disk` that reading
needs, and code that writes whole files takes `WritableFiles`; they are given the local disk or
another file system alike. What takes a whole `Disk`, as the store's own checks do, gets
`ReadOnlyDisk`.
"""

from sprocket.spark.files.files import (
    Files,
    HeldLock,
    ReadableFile,
    WritableFile,
    WritableFiles,
    read_whole,
)
from sprocket.spark.files.local_files import LocalFiles
from sprocket.spark.files.location import PREFIX, local_path, open_files, open_remote, open_writable
from sprocket.spark.files.read_ahead import AHEAD_BYTES, ReadAhead, read_on
from sprocket.spark.files.read_only_disk import ReadOnlyDisk, open_disk
from sprocket.spark.files.remote_files import RemoteFiles

__all__ = [
    "AHEAD_BYTES",
    "PREFIX",
    "Files",
    "HeldLock",
    "LocalFiles",
    "ReadAhead",
    "ReadOnlyDisk",
    "ReadableFile",
    "RemoteFiles",
    "WritableFile",
    "WritableFiles",
    "local_path",
    "open_disk",
    "open_files",
    "open_remote",
    "open_writable",
    "read_on",
    "read_whole",
]
