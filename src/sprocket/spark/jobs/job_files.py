"""Which file system the folders of a job lie on, where they are named by a scheme."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Annotated

from sprocket.base.disk import Disk
from sprocket.base.errors import ForeignStore, SettingsError
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.spark.files import PREFIX, local_path, open_disk
from sprocket.spark.jobs.job import JobOption


@dataclasses.dataclass(frozen=True, slots=True)
class StoreFolder:
    """A store's folder, as every task opens it."""

    path: str
    settings: Mapping[str, str]

    @property
    def layout(self) -> StoreLayout:
        """Where its files are."""
        return StoreLayout(self.path)

    def disk(self) -> Disk:
        """Return what it lies on."""
        return open_disk(self.path, self.settings)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JobFiles:
    """Settings for `s3://`, `hdfs://` and the like; folders of the local disk need none."""

    fs: Annotated[
        list[str],
        JobOption(
            "A setting of the file system of `s3://` and the like, such as `region=eu-west-1`; may"
            " be repeated",
            "NAME=VALUE",
        ),
    ] = ()  # type: ignore[assignment]

    def require_use(self, *folders: str) -> None:
        """Check that settings which were given have a folder that they are for.

        Raises:
            SettingsError: All folders are on the local disk.
        """
        if self.fs and all(local_path(folder) is not None for folder in folders):
            raise SettingsError(
                f"--fs is for folders on s3:// and the like, and none of these is:"
                f" {', '.join(folders)}"
            )

    def settings(self, folder: str) -> dict[str, str]:
        """Return the settings for a folder, by the names that its file system gives them.

        Raises:
            SettingsError: One is not a `NAME=VALUE`.
        """
        return {} if local_path(folder) is not None else dict(pairs(self.fs, "setting of --fs"))

    def folder(self, store: str) -> StoreFolder:
        """Return the folder of a store, wherever it lies; raises as `settings`."""
        return StoreFolder((local_path(store) or store).rstrip("/") or "/", self.settings(store))

    def options(self, folder: str) -> dict[str, str]:
        """Return the same as options of the format `rocketmq`."""
        return {PREFIX + name: value for name, value in self.settings(folder).items()}


LOCAL_FILES = JobFiles()
"""The value that a job has if no settings are given."""


def require_outside(folder: str, store: str) -> None:
    """Check that a folder that a job makes is not in the store that it reads.

    Raises:
        ForeignStore: It is, or is the store itself.
    """
    inner, outer = (
        one.rstrip("/") if (path := local_path(one)) is None else os.path.realpath(path)
        for one in (folder, store)
    )
    if f"{inner}/".startswith(f"{outer}/"):
        raise ForeignStore(f"{folder}: expected a folder outside of the store {store}")


def pairs(texts: Sequence[str], what: str) -> list[tuple[str, str]]:
    """Return the names and values of texts such as `name=value`.

    Args:
        texts: As people typed them.
        what: What each is, for the error.

    Raises:
        SettingsError: One is none.
    """
    found = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not name.strip() or not equals:
            raise SettingsError(f"{what} {text!r}: expected NAME=VALUE")
        found.append((name.strip(), value))
    return found
