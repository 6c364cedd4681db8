"""Frames for fuzzing."""

from tests.fuzz import frames

from sprocket.rocketmq.remoting import Connection


def test_good_frames_are_whole() -> None:
    """One command each."""
    for frame in frames.good_frames():
        assert len(Connection().receive(frame)) == 1


def test_a_seed_gives_the_same_frames_again() -> None:
    """And another one others; few of them are still what they were."""
    some = list(frames.mutated_frames(1, 200))
    assert some == list(frames.mutated_frames(1, 200))
    assert some != list(frames.mutated_frames(2, 200))
    good = set(frames.good_frames())
    assert sum(frame in good for frame in some) < 40
