"""The newest offset of each key, whatever comes, in no more room than was given."""

from random import Random

from sprocket.rocketmq.store.compaction.key_map import KeyMap, digest


def test_it_equals_a_dictionary() -> None:
    """In pieces of any length."""
    random = Random(1)
    keys, known, offset = KeyMap(1000), dict[str, int](), 0
    for _ in range(50):
        part = [f"k{random.randrange(300)}" for _ in range(random.randrange(40))]
        offsets = list(range(offset, offset + len(part)))
        offset += len(part)
        keys.put([digest(key) for key in part], offsets)
        known.update(zip(part, offsets, strict=True))
    names = [f"k{number}" for number in range(310)]
    found = keys.newest([digest(name) for name in names])
    assert found.tolist() == [known.get(name, -1) for name in names]
    assert (keys.last_offset, keys.is_full) == (offset - 1, False)


def test_a_full_one_says_how_far_it_got() -> None:
    """Keys that it has already need no room."""
    keys = KeyMap(3)
    keys.put([digest(key) for key in "abab"], [0, 1, 2, 3])
    assert not keys.is_full
    keys.put([digest(key) for key in "acbda"], [4, 5, 6, 7, 8])
    assert (keys.is_full, keys.last_offset) == (True, 6)
    assert keys.newest([digest(key) for key in "abcd"]).tolist() == [4, 6, 5, -1]


def test_digests_that_begin_alike_are_told_apart() -> None:
    """Those of 16 bytes that differ in the last ones only."""
    keys = KeyMap(10)
    one, two, three = (bytes(15) + bytes([number]) for number in range(3))
    keys.put([one, two], [1, 2])
    assert keys.newest([two, one, three]).tolist() == [2, 1, -1]
