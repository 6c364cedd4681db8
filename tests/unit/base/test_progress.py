"""Steps of long work; who calls them is tested with those."""

from sprocket.base.progress import Step, unwatched


def test_nobody_need_watch() -> None:
    """The step that takes no note is one."""
    step: Step = unwatched
    step("queues found", 1)
    step("bytes of log checked", 1, total=2)
