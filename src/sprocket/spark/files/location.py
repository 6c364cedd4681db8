"""Which file system a folder lies on, and how it is opened with the settings given for it.

| folder | opened by | settings |
|---|---|---|
| `/path`, `file:///path` | the local disk | none |
| `s3://bucket/path`, also `s3a`, `s3n` | `pyarrow.fs.S3FileSystem` | its arguments |
| `gs://bucket/path`, also `gcs` | `pyarrow.fs.GcsFileSystem` | its arguments |
| `hdfs://host:port/path`, also `viewfs` | `pyarrow.fs.HadoopFileSystem` | its arguments |
| any other `scheme://…`, or `fsspec+scheme://…` | `fsspec` | those of its file system |

Settings are text, as options of Spark are. Those of Arrow's file systems have the types that these
take; those of fsspec are read as JSON where they are JSON, so `true`, `3` and `{"a":1}` are what
they look like, and `"3"` is text.

Values of settings may be secrets: no error here shows one.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from sprocket.base.disk import RealDisk
from sprocket.base.errors import SettingsError
from sprocket.spark.files.files import Files, WritableFiles
from sprocket.spark.files.local_files import LocalFiles
from sprocket.spark.files.remote_files import RemoteFiles, first_line

PREFIX = "fs."
"""Before the names of settings, where they stand among other options."""

_FSSPEC = "fsspec+"
_SOME_REGION = "us-east-1"


def local_path(folder: str) -> str | None:
    """Return the path on the local disk that `folder` means, None if it lies elsewhere.

    Raises:
        ValueError: It is a file of another machine.
    """
    if folder.startswith("file:"):
        rest = folder.removeprefix("file:")
        if not rest.startswith("//"):
            return rest
        host, slash, path = rest.removeprefix("//").partition("/")
        if host not in ("", "localhost"):
            raise ValueError(f"is on the machine {host!r}; expected file:///path")
        return slash + path
    return None if "://" in folder else folder


def open_files(folder: str, settings: Mapping[str, str] | None = None) -> Files:
    """Return what reads the file system that a folder lies on; paths begin with the folder.

    Opens nothing on the network, except that the region of an S3 bucket is asked for if neither
    `region` nor `endpoint_override` is among the settings.

    Args:
        folder: A path, or `scheme://…`; see the table above.
        settings: By the names that the file system gives them.

    Raises:
        SettingsError: The scheme is unknown, its library is missing, or it has no such setting.
    """
    settings = settings or {}
    if local_path(folder) is not None:
        _refuse_settings(folder, settings)
        return RealDisk()
    return open_remote(folder, settings)


def open_writable(folder: str, settings: Mapping[str, str] | None = None) -> WritableFiles:
    """Return what reads and writes the file system that a folder lies on; as `open_files`."""
    settings = settings or {}
    if local_path(folder) is not None:
        _refuse_settings(folder, settings)
        return LocalFiles(RealDisk())
    return open_remote(folder, settings)


def _refuse_settings(folder: str, settings: Mapping[str, str]) -> None:
    if settings:
        name = PREFIX + next(iter(settings))
        raise SettingsError(f"{folder} is on the local disk, which has no setting {name!r}")


def open_remote(folder: str, settings: Mapping[str, str]) -> RemoteFiles:
    """Do as `open_files` for a folder that is named by a scheme."""
    scheme, _, rest = folder.partition("://")
    authority, _, path = rest.partition("/")
    if ":" in authority.rpartition("@")[0]:
        raise SettingsError(
            f"the {scheme} path of a store holds a password, which would be shown wherever the path"
            f" is; give it by options, such as {PREFIX}access_key and {PREFIX}secret_key"
        )
    opener = _OPENERS.get(scheme)
    try:
        if opener is None:
            system, inner = _fsspec(folder.removeprefix(_FSSPEC), _guessed(settings))
        else:
            system, inner = opener(authority, path, _typed(settings))
    except ImportError as error:
        raise SettingsError(f"{scheme}:// cannot be opened: {first_line(error)}") from error
    except TypeError as error:  # it names an argument that is not known
        raise SettingsError(f"{scheme}:// cannot be opened: {first_line(error)}") from None
    except (OSError, ValueError, pa.ArrowException) as error:
        # The text may show what was given, but for values of settings.
        text = first_line(error)
        if any(value and value in text for value in settings.values()):
            text = "a setting is wrong"
        raise SettingsError(f"{scheme}:// cannot be opened: {text}") from None
    return RemoteFiles(system, folder, inner)


def _s3(bucket: str, path: str, settings: dict[str, Any]) -> tuple[Any, str]:
    from pyarrow import fs

    if not settings.keys() & {"region", "endpoint_override"}:
        # This refuses a name that is not an argument before the public cloud is asked for anything.
        fs.S3FileSystem(**settings, region=_SOME_REGION)
        try:
            settings["region"] = fs.resolve_s3_region(bucket)
        except (OSError, pa.ArrowException) as error:
            text = f"the region of bucket {bucket!r} was not found ({first_line(error)})"
            raise ValueError(f"{text}; give it by the option {PREFIX}region") from error
    return fs.S3FileSystem(**settings), f"{bucket}/{path}"


def _gcs(bucket: str, path: str, settings: dict[str, Any]) -> tuple[Any, str]:
    from pyarrow import fs

    return fs.GcsFileSystem(**settings), f"{bucket}/{path}"


def _hdfs(authority: str, path: str, settings: dict[str, Any]) -> tuple[Any, str]:
    from pyarrow import fs

    user, at, address = authority.rpartition("@")
    host, _, port = address.partition(":")
    if at:
        settings.setdefault("user", user)
    return fs.HadoopFileSystem(host or "default", int(port or 0), **settings), f"/{path}"


def _viewfs(authority: str, path: str, settings: dict[str, Any]) -> tuple[Any, str]:
    from pyarrow import fs

    return fs.HadoopFileSystem(f"viewfs://{authority}", **settings), f"/{path}"


def _fsspec(url: str, settings: dict[str, Any]) -> tuple[Any, str]:
    from pyarrow import fs

    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise ImportError("install fsspec, and what it needs for this scheme") from error
    system, inner = url_to_fs(url, **settings)
    return fs.PyFileSystem(fs.FSSpecHandler(system)), inner


_OPENERS: dict[str, Callable[[str, str, dict[str, Any]], tuple[Any, str]]] = {
    **dict.fromkeys(("s3", "s3a", "s3n"), _s3),
    **dict.fromkeys(("gs", "gcs"), _gcs),
    "hdfs": _hdfs,
    "viewfs": _viewfs,
}


def _bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.lower() == "true"


_KINDS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("anonymous", "force_virtual_addressing"), _bool),
    **dict.fromkeys(("load_frequency", "replication", "buffer_size", "default_block_size"), int),
    **dict.fromkeys(("request_timeout", "connect_timeout"), float),
    "proxy_options": json.loads,
    "extra_conf": json.loads,
}
"""Arguments of Arrow's file systems that are not text."""


def _typed(settings: Mapping[str, str]) -> dict[str, Any]:
    """Return settings as Arrow's file systems take them."""
    typed: dict[str, Any] = {}
    for name, text in settings.items():
        try:
            typed[name] = _KINDS.get(name, str)(text)
        except ValueError as error:
            raise SettingsError(f"option {PREFIX + name!r} cannot be read: {error}") from None
    return typed


def _guessed(settings: Mapping[str, str]) -> dict[str, Any]:
    """Return settings as fsspec takes them: what is JSON is read as such."""
    guessed: dict[str, Any] = {}
    for name, text in settings.items():
        try:
            guessed[name] = json.loads(text)
        except ValueError:
            guessed[name] = text
    return guessed
