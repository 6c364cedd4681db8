"""A folder names the lowest release that may open it; others leave it as it is."""

import pytest

from sprocket.base import release
from sprocket.base.disk import replace_file
from sprocket.base.errors import ForeignStore
from sprocket.testing.disk import SimulatedDisk

ROOT = "/s"
PATH = f"{ROOT}/{release.FILE}"


def made() -> SimulatedDisk:
    """Return a disk with a folder."""
    disk = SimulatedDisk()
    disk.make_folder(ROOT)
    return disk


@pytest.mark.parametrize(
    ("ours", "named", "may"),
    [
        ("0.2.0.dev0", "0.2.0", True),
        ("0.10.0", "0.2.0", True),
        ("0.2.0", "0.2.0", True),
        ("1.0", "0.2.0", True),
        ("0.2.0", "0.2.1", False),
        ("0.2.0", "0.10.0", False),
        ("0.9.9", "1.0.0", False),
    ],
)
def test_an_older_release_refuses(
    monkeypatch: pytest.MonkeyPatch, ours: str, named: str, may: bool
) -> None:
    """Numbers are compared, not texts; nothing is changed by who may not."""
    disk = made()
    release.admit(disk, ROOT, "0.1.0")
    monkeypatch.setattr(release, "__version__", named)
    release.admit(disk, ROOT, named)
    before = disk.contents()
    monkeypatch.setattr(release, "__version__", ours)
    if may:
        release.require(disk, ROOT)
        release.admit(disk, ROOT, "0.1.0")  # which needs less, and does not know what was left
    else:
        said = f"{ours}, does not know; use {named} or"
        with pytest.raises(ForeignStore, match=said):
            release.require(disk, ROOT)
        with pytest.raises(ForeignStore, match=said):
            release.admit(disk, ROOT, "0.1.0")
    assert disk.contents() == before


def test_the_file_is_as_its_page_says() -> None:
    """The release, and its checksum."""
    disk = made()
    release.admit(disk, ROOT, "0.2.0")
    assert disk.contents() == {PATH: b"0.2.0 769630184\n"}
    assert disk.crash(lambda _: 0).contents() == disk.contents()


def test_no_bit_keeps_a_folder_from_being_opened() -> None:
    """Wherever it is; what is damaged is told, and written anew."""
    disk = made()
    release.admit(disk, ROOT, "0.2.0")
    whole = disk.contents()[PATH]
    for position in range(len(whole)):
        for bit in range(8):
            data = bytearray(whole)
            data[position] ^= 1 << bit
            replace_file(disk, PATH, bytes(data))
            (wrong,) = release.require(disk, ROOT)
            assert PATH in wrong
            assert release.admit(disk, ROOT, "0.2.0") == [wrong]
            assert disk.contents() == {PATH: whole}
    replace_file(disk, PATH, b"")
    assert len(release.admit(disk, ROOT, "0.2.0")) == 1
    assert disk.contents() == {PATH: whole}
