"""What the process takes of the memory: the system's own figure, and what there is."""

import mmap
import os
import platform
import subprocess
import sys
from types import SimpleNamespace

import pytest

from sprocket.base import memory


def test_a_process_takes_some_of_what_there_is() -> None:
    """More when it holds more."""
    before = memory.used_bytes()
    with mmap.mmap(
        -1, 64 << 20, mmap.MAP_PRIVATE
    ) as held:  # pages that the process did not have before
        held.write(b"x" * len(held))
        assert memory.used_bytes() - before > len(held) // 2
    assert memory.used_bytes() < memory.whole_bytes()
    assert memory.whole_bytes() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


MIB = 1 << 20
V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = (
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
)
IN_V1 = "9:name=systemd:/a\n8:cpu,cpuacct:/other\n4:memory:/system.slice/s.service\n0::/u\n"


@pytest.mark.parametrize(
    ("groups", "mounts", "limits", "expected_mib"),
    [
        pytest.param(
            *("0::/system.slice/s.service\n", V2),
            {"/sys/fs/cgroup/system.slice/s.service/memory.max": f"{256 * MIB}\n"},
            256,
            id="MemoryMax of a service",
        ),
        pytest.param(
            *("0::/a/b/c\n", V2),
            {
                "/sys/fs/cgroup/a/b/c/memory.max": "max\n",
                "/sys/fs/cgroup/a/b/memory.max": f"{100 * MIB}\n",
                "/sys/fs/cgroup/a/memory.max": f"{200 * MIB}\n",
            },
            100,
            id="the smallest of those around it",
        ),
        pytest.param(
            *("0::/\n", V2),
            {"/sys/fs/cgroup/memory.max": f"{64 * MIB}\n"},
            64,
            id="a container with a name space of its own",
        ),
        pytest.param(
            "0::/docker/abc\n",
            V2.replace(" / /sys", " /docker/abc /sys"),
            {"/sys/fs/cgroup/memory.max": f"{64 * MIB}\n"},
            64,
            id="a container without one",
        ),
        pytest.param(
            "0::/../other\n",
            V2,
            {
                "/sys/fs/cgroup/other/memory.max": f"{MIB}\n",
                "/sys/fs/cgroup/memory.max": f"{64 * MIB}\n",
            },
            64,
            id="a group beside that of the name space",
        ),
        pytest.param(
            *(IN_V1, V1),
            {"/sys/fs/cgroup/memory/system.slice/s.service/memory.limit_in_bytes": f"{MIB}"},
            1,
            id="version 1",
        ),
        pytest.param(
            *(IN_V1, V1),
            {
                "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
                "/sys/fs/cgroup/memory/system.slice/memory.limit_in_bytes": f"{2 * MIB}",
            },
            2,
            id="version 1, of what is around it",
        ),
    ],
)
def test_what_the_own_group_may_take_counts(
    groups: str, mounts: str, limits: dict[str, str], expected_mib: int
) -> None:
    """Only the root of the mount was read, so the limit of a service was not seen."""
    files = {"/proc/self/cgroup": groups, "/proc/self/mountinfo": mounts, **limits}
    assert memory.whole_bytes(lambda path: files.get(path, "")) == expected_mib * MIB


@pytest.mark.parametrize("text", ["", "0", "::", "0::/a\n\n", "30 23 - cgroup2\n", "a - - b"])
def test_files_that_nobody_understands_are_no_limit(text: str) -> None:
    """What the machine has is left."""
    assert memory.whole_bytes(lambda _: text) == memory.whole_bytes(lambda _: "")


class FakeLibrary:
    """A C library that says how much is free, and counts how often it gave that back."""

    def __init__(self) -> None:
        self.free = self.trims = 0

    def mallinfo2(self) -> SimpleNamespace:
        """Say so; what was given back still counts, as in glibc."""
        return SimpleNamespace(fordblks=self.free)

    def malloc_trim(self, _pad: int) -> None:
        """Count."""
        self.trims += 1


def test_what_is_free_is_given_back_once_and_not_in_the_middle_of_work() -> None:
    """Only when so much more is free than after the last time that it pays."""
    library = FakeLibrary()
    freed = memory.FreedMemory(library)
    due = []
    for free in (1, 1, 400, 400, 400, 401, 300, 300, 310, 320, 320):
        library.free = free << 20
        due.append(freed.is_due())
        if due[-1]:
            freed.give_back()
    assert due == [False] * 3 + [True] + [False] * 6 + [True]
    assert library.trims == 2


def test_glibc_keeps_what_was_freed() -> None:
    """Blocks of up to 32 MiB; another library is left as it is."""
    asked: list[tuple[int, int]] = []
    memory.keep_freed(SimpleNamespace(mallopt=lambda *one: asked.append(one)))
    assert asked == [(-1, 128 << 20), (-3, 32 << 20)]
    memory.keep_freed(SimpleNamespace())
    code = "from sprocket.base import memory\nassert memory.keep_freed() is None\n" + KEEPS
    subprocess.run([sys.executable, "-c", code], check=True)


KEEPS = """
import platform, resource

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

for _ in range(3):
    held = [bytearray(8 << 20) + b"x" for _ in range(3)]
    del held
before = faults()
for _ in range(20):
    held = [bytearray(8 << 20) + b"x" for _ in range(3)]
    del held
assert platform.libc_ver()[0] != "glibc" or faults() - before < 20 * 2048, faults() - before
"""


FREES_BETWEEN = """
from sprocket.base import memory

freed = memory.FreedMemory()
freed.give_back()
held = [bytes(3000 + at % 7) for at in range(20_000)]
full = memory.used_bytes()
held = held[::100]
assert not freed.is_due()  # much is being freed
assert freed.is_due()
freed.give_back()
assert full - memory.used_bytes() > 40 << 20
assert not freed.is_due()
assert len(held) == 200
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps pages like that")
def test_pages_between_what_is_still_used_are_given_back() -> None:
    """Of many bodies a few are left, so that none of their arenas is empty.

    In a process of its own: in this one other tests' threads take and free memory, too.
    """
    command = [sys.executable, "-c", FREES_BETWEEN]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
