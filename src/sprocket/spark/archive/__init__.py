"""An archive: messages as Parquet files, and manifests that say which of the files count.

`ArchiveFolder` knows its layout and publishes; `TopicFiles` writes the rows of one task, inside of
a worker; `read_archive` gives a DataFrame. See docs/formats/archive.md.
"""

from sprocket.spark.archive.archive_folder import (
    VERSION,
    ArchivedFile,
    ArchiveFolder,
    Manifest,
    archive_files,
    is_archive,
    topics_archived,
)
from sprocket.spark.archive.archive_rows import read_archive
from sprocket.spark.archive.topic_files import FileName, TopicFiles

__all__ = [
    "VERSION",
    "ArchiveFolder",
    "ArchivedFile",
    "FileName",
    "Manifest",
    "TopicFiles",
    "archive_files",
    "is_archive",
    "read_archive",
    "topics_archived",
]
