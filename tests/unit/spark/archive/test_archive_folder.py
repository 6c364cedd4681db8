"""Manifests: made once, a chain, and the only thing that makes a file count."""

import json
import re
from pathlib import Path

import pytest

from sprocket.base.disk import RealDisk
from sprocket.base.errors import CorruptRecord, ForeignStore, SettingsError, StoreLocked
from sprocket.spark.archive import ArchivedFile, ArchiveFolder, Manifest, archive_files
from sprocket.spark.files import LocalFiles

PAGE = Path(__file__).resolve().parents[4] / "docs" / "formats" / "archive.md"


def file(name: str, **topics: int) -> ArchivedFile:
    """A data file of a manifest."""
    return ArchivedFile(
        path=f"data/topics/{name}",
        bytes=1,
        messages=sum(topics.values()),
        topics=topics,
        first_offset=0,
        last_offset=9,
        first_stored_at_ms=0,
        last_stored_at_ms=1,
    )


def manifest(start: int, end: int, *files: ArchivedFile) -> Manifest:
    """A manifest of all topics."""
    return Manifest(version=1, start=start, end=end, topics=[], internal=False, files=list(files))


@pytest.fixture
def archive(tmp_path: Path) -> ArchiveFolder:
    """An empty archive."""
    made = ArchiveFolder(LocalFiles(RealDisk()), str(tmp_path / "archive"))
    with made.locked():
        return made


def test_manifests_come_back_in_the_order_of_the_log(archive: ArchiveFolder) -> None:
    """Whatever else lies beside them, as the rest of a publication that a crash cut short."""
    ones = [manifest(0, 900, file("a", x=1)), manifest(900, 10_000), manifest(20_000, 30_000)]
    for one in reversed(ones):
        archive.publish(one)
    Path(archive.path, "manifests", f"{30_000:020d}.json.tmp").write_text("{")
    assert archive.manifests() == ones


def test_a_manifest_is_never_replaced(archive: ArchiveFolder) -> None:
    """Two runs that would publish the same part cannot both."""
    archive.publish(manifest(0, 900))
    with pytest.raises(CorruptRecord, match=r"000\.json is there already"):
        archive.publish(manifest(0, 1000))
    assert archive.manifests() == [manifest(0, 900)]


def test_manifests_that_overlap_are_refused(archive: ArchiveFolder) -> None:
    """A message would be there twice."""
    archive.publish(manifest(0, 900))
    archive.publish(manifest(899, 1000))
    with pytest.raises(CorruptRecord, match=r"899\.json begins at 899, before .* ends, at 900"):
        archive.manifests()


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("{", CorruptRecord, "is not a manifest"),
        ("[]", CorruptRecord, "is not a manifest"),
        ('{"version":1,"start":"x"}', CorruptRecord, "is not a manifest"),
        ('{"version":2}', ForeignStore, "is of version 2, expected 1"),
        ("{}", ForeignStore, "is of version None, expected 1"),
    ],
)
def test_what_is_no_manifest_is_named(
    archive: ArchiveFolder, text: str, error: type[Exception], said: str
) -> None:
    """With its path."""
    Path(archive.path, "manifests", f"{0:020d}.json").write_text(text)
    with pytest.raises(error, match=rf"{archive.path}/manifests/0+\.json {said}"):
        archive.manifests()


def test_what_a_run_left_behind_is_removed(archive: ArchiveFolder) -> None:
    """Data files that no manifest names, and nothing that was not written by a run."""
    folder = Path(archive.path, "data", "topics")
    folder.mkdir(parents=True)
    names = [f"{0:020d}-0123abcd-0-0.parquet", f"{0:020d}-0123abcd-0-1.parquet", "mine.parquet"]
    for name in names:
        (folder / name).touch()
    kept = [manifest(0, 900, file(names[1], x=1))]
    assert archive.remove_left_behind(kept) == 1
    assert sorted(path.name for path in folder.iterdir()) == sorted(names[1:])


def test_one_run_at_a_time(archive: ArchiveFolder) -> None:
    """The second says so."""
    with archive.locked(), pytest.raises(StoreLocked), archive.locked():
        pass


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    """Whoever mistypes a path loses nothing."""
    (tmp_path / "letter").touch()
    with (
        pytest.raises(ForeignStore, match="expected an archive, or a new or an empty folder"),
        ArchiveFolder(LocalFiles(RealDisk()), str(tmp_path)).locked(),
    ):
        pass
    with pytest.raises(ForeignStore, match="is not an archive"):
        archive_files(str(tmp_path))


def test_files_are_found_by_topic(archive: ArchiveFolder) -> None:
    """All that have a message of it; one that is not there names the nearest."""
    archive.publish(manifest(0, 900, file("a", orders=1), file("b", orders=1, refunds=2)))
    archive.publish(manifest(900, 950, file("c", refunds=1)))

    def names(*topics: str) -> list[str]:
        return [Path(path).name for path in archive_files(archive.path, topics)]

    assert names() == ["a", "b", "c"]
    assert names("orders") == ["a", "b"]
    assert names("refunds") == ["b", "c"]
    with pytest.raises(SettingsError, match=r"no topic 'order' in the archive .*orders"):
        names("order")


def test_the_example_of_the_page_is_a_manifest(archive: ArchiveFolder) -> None:
    """As the reader takes it, and as the writer writes it."""
    (text,) = re.findall(r"^```json\n(.+?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    start = json.loads(text)["start"]
    path = Path(archive.path, "manifests", f"{start:020d}.json")
    path.write_text(text)
    (found,) = archive.manifests()
    path.unlink()
    archive.publish(found)
    assert path.read_text() == text
