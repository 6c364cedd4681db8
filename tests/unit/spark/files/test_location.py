"""Where a folder lies: which file system opens it, with which settings, and what it refuses."""

import re
from typing import Any

import pytest
from pyarrow import fs

from sprocket.base.errors import SettingsError
from sprocket.spark.files import local_path, open_files

S3 = {"endpoint_override": "http://127.0.0.1:1", "region": "nowhere"}


@pytest.mark.parametrize(
    ("folder", "path"),
    [
        ("/a/b", "/a/b"),
        ("a b", "a b"),
        ("file:///a/b", "/a/b"),
        ("file://localhost/a", "/a"),
        ("file:/a", "/a"),
        ("s3://bucket/a", None),
        ("fsspec+file:///a", None),
    ],
)
def test_local_paths(folder: str, path: str | None) -> None:
    """A path without a scheme, and the three ways to write one of a file."""
    assert local_path(folder) == path


def test_a_file_of_another_machine() -> None:
    """It cannot be read from here."""
    with pytest.raises(ValueError, match="on the machine 'other'"):
        local_path("file://other/a")


def made_by(monkeypatch: pytest.MonkeyPatch, kind: str) -> list[Any]:
    """Return the list in which each making of such a file system is noted."""
    made: list[Any] = []
    monkeypatch.setattr(fs, kind, lambda *where, **settings: made.append((where, settings)))
    return made


def test_settings_of_arrows_file_systems_have_their_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text from options becomes what the file system takes; keys of digits stay text."""
    made = made_by(monkeypatch, "S3FileSystem")
    given = {"access_key": "0123", "anonymous": "False", "request_timeout": "2.5"}
    open_files("s3a://bucket/store", S3 | given)
    typed = {"access_key": "0123", "anonymous": False, "request_timeout": 2.5}
    assert made == [((), {**S3, **typed})]


def test_where_hdfs_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Host, port and user are in the address; without a host Hadoop's settings say it."""
    made = made_by(monkeypatch, "HadoopFileSystem")
    open_files("hdfs://me@names:8020/store", {"replication": "2"})
    open_files("hdfs:///store")
    open_files("viewfs://cluster/store")
    first = (("names", 8020), {"replication": 2, "user": "me"})
    assert made == [first, (("default", 0), {}), (("viewfs://cluster",), {})]


def test_the_region_of_a_bucket_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it is given, or the server is not Amazon's."""
    made = made_by(monkeypatch, "S3FileSystem")
    monkeypatch.setattr(fs, "resolve_s3_region", lambda bucket: f"region of {bucket}")
    open_files("s3://bucket/store")
    assert made[1:] == [((), {"region": "region of bucket"})]

    def fails(bucket: str) -> str:
        raise OSError(f"no bucket {bucket}\nand more")

    monkeypatch.setattr(fs, "resolve_s3_region", fails)
    with pytest.raises(SettingsError, match=r"no bucket bucket\); give it by the option fs.region"):
        open_files("s3://bucket/store")


def test_settings_of_fsspec_are_read_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks like a number or an object is one; text in quotes is text."""
    import fsspec.core

    seen: list[Any] = []

    def noted(url: str, **settings: Any) -> Any:
        seen.append((url, settings))
        return fsspec.filesystem("memory"), "/x"

    monkeypatch.setattr(fsspec.core, "url_to_fs", noted)
    open_files("sftp://host/x", {"port": "22", "key": '"22"', "more": '{"a":true}', "name": "x"})
    open_files("fsspec+s3://host/x")
    settings = {"port": 22, "key": "22", "more": {"a": True}, "name": "x"}
    assert seen == [("sftp://host/x", settings), ("s3://host/x", {})]


@pytest.mark.parametrize(
    ("folder", "settings", "said"),
    [
        (
            "/store",
            {"region": "x"},
            "/store is on the local disk, which has no setting 'fs.region'",
        ),
        ("s3://b/x", S3 | {"regoin": "x"}, "s3:// cannot be opened: .*'regoin'"),
        ("s3://b/x", S3 | {"anonymous": "yes"}, "'fs.anonymous' cannot be read: expected true"),
        ("s3://key:word@b/x", S3, "the s3 path of a store holds a password"),
        ("nosuch://b/x", {}, "nosuch:// cannot be opened: .*nosuch"),
    ],
)
def test_what_cannot_be_opened(folder: str, settings: dict[str, str], said: str) -> None:
    """The text names the setting, the scheme or the library that is missing."""
    with pytest.raises(SettingsError, match=said):
        open_files(folder, settings)


def test_a_wrong_setting_asks_the_cloud_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that is misspelt is none; without one the public cloud would be asked."""
    asked: list[str] = []

    def region(bucket: str) -> str:
        asked.append(bucket)
        return "eu-west-1"

    monkeypatch.setattr(fs, "resolve_s3_region", region)
    settings = {"endpont_override": "http://127.0.0.1:1", "access_key": "k", "secret_key": "s"}
    with pytest.raises(SettingsError, match=r"s3:// cannot be opened: .*'endpont_override'"):
        open_files("s3://b/x", settings)
    assert asked == []
    del settings["endpont_override"]
    open_files("s3://b/x", settings)
    assert asked == ["b"]


def test_hadoop_missing_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow tells of each place where it has looked for a library."""

    def fails(*_: Any) -> None:
        raise OSError("Unable to load libjvm\ndlopen(a)\ndlopen(b)")

    monkeypatch.setattr(fs, "HadoopFileSystem", fails)
    with pytest.raises(SettingsError, match=r"hdfs:// cannot be opened: Unable to load libjvm$"):
        open_files("hdfs://names:8020/store")


def test_no_error_shows_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a file system says of the values that it was given."""

    def fails(**settings: str) -> None:
        raise ValueError(f"bad {settings}")

    monkeypatch.setattr(fs, "S3FileSystem", fails)
    with pytest.raises(SettingsError) as caught:
        open_files("s3://b/x", S3 | {"secret_key": "hush"})
    assert not re.search("hush", f"{caught.value} {caught.value.__cause__}")
