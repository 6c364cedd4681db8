"""Memory that is lent is used again when nobody has it, and by nobody else before."""

import random

from sprocket.base.disk.scratch import CHUNK_BYTES, CHUNKS_MAX, Scratch


def _memory_of(view: memoryview) -> int:
    return id(view.obj)


def test_what_was_let_go_of_is_lent_again() -> None:
    """The same memory, from its beginning."""
    scratch = Scratch()
    view = scratch.lend(1000)
    first = view.obj
    view[:4] = b"mark"
    del view
    again = scratch.lend(10)
    assert again.obj is first
    assert bytes(again[:4]) == b"mark"


def test_a_part_of_it_in_hand_keeps_all_of_it() -> None:
    """A slice, or another kind of view, is enough."""
    scratch = Scratch()
    kept = scratch.lend(100)[10:20].toreadonly()
    scratch.lend(100)[:] = b"x" * 100
    other = scratch.lend(CHUNK_BYTES)
    other[:] = b"y" * CHUNK_BYTES
    assert bytes(kept) == bytes(10)


def test_what_is_lent_to_several_never_overlaps() -> None:
    """Whatever they take, and in whatever order they let go of it."""
    rng = random.Random(7)
    scratch = Scratch()
    held: list[tuple[memoryview, bytes]] = []
    for number in range(2000):
        size = rng.choice((0, 1, 64, 65, 5000, 300_000, CHUNK_BYTES, CHUNK_BYTES + 1))
        view = scratch.lend(size)
        assert len(view) == size
        content = bytes([number % 251]) * min(size, 9)
        view[: len(content)] = content
        if size > len(content):
            view[-1] = number % 251
        held.append((view, content))
        while len(held) > rng.randrange(1, 30):
            view, content = held.pop(rng.randrange(len(held)))
            assert bytes(view[: len(content)]) == content
            assert not len(view) or view[-1] == content[0]
            del view


def test_no_more_is_kept_than_some_chunks() -> None:
    """Who asks for more gets new memory, and so does who asks for more than one has."""
    scratch = Scratch()
    held = [scratch.lend(CHUNK_BYTES) for _ in range(CHUNKS_MAX + 3)]
    assert len({_memory_of(view) for view in held}) == CHUNKS_MAX + 3
    kept = {_memory_of(view) for view in held[:CHUNKS_MAX]}
    held.clear()
    again = [scratch.lend(CHUNK_BYTES) for _ in range(CHUNKS_MAX)]
    assert {_memory_of(view) for view in again} == kept
    assert len(scratch.lend(CHUNK_BYTES + 1)) == CHUNK_BYTES + 1
