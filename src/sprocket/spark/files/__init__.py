"""A store's folder on any file system, read only: a local disk, S3, HDFS, whatever fsspec opens.

`open_files` returns what reads the file system that a folder lies on. Who reads a folder takes
`Files`, the small part of `base.disk.Disk` that reading needs, and is given the local disk or
another file system alike.
"""

from sprocket.spark.files.files import Files, ReadableFile, read_whole
from sprocket.spark.files.location import local_path, open_files
from sprocket.spark.files.remote_files import RemoteFiles

__all__ = [
    "Files",
    "ReadableFile",
    "RemoteFiles",
    "local_path",
    "open_files",
    "read_whole",
]
