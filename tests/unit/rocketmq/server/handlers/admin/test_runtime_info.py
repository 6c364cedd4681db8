"""Every figure that RocketMQ has is told, with a value that is true."""

import json
from pathlib import Path

from tests.stores import filled, new

from sprocket.base.place import Place
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.broker.timers import TimerFigures
from sprocket.rocketmq.server.handlers.admin import RuntimeInfo, WaitingRequests, runtime_info
from sprocket.testing.clock import FakeClock

ROCKETMQ = Path(__file__).parents[5] / "data/rocketmq-5.3.3/runtime-info.json"
"""The body that the real 5.3.3 answered with code 28, after five messages of 245 bytes."""


def test_no_figure_of_rocketmq_is_missing() -> None:
    """But for the folder in one name; ours has two more."""
    disk, store = filled(4)
    disk.used = 0.25
    clock = FakeClock()
    info = RuntimeInfo(
        store,
        Stats(clock),
        Place(disk, "/store", clock),
        lambda: WaitingRequests(1, 2, 3, 40),
        lambda: {3: (5, 9)},
        lambda: TimerFigures(2500, 7, 40, 1.5, 0.0),
        lambda: None,
    )
    theirs = {name.partition("_/")[0] for name in json.loads(ROCKETMQ.read_text())["table"]}
    table = info.table()
    ours = {name.partition("_/")[0] for name in table}
    assert ours - theirs == {"sprocketHeldPulls", "sprocketRefusal", "scheduleMessageOffset_3"}
    assert theirs - ours == set()
    assert table["scheduleMessageOffset_3"] == "5,9"
    names = ("ReadBehind", "OffsetBehind", "CongestNum", "EnqueueTps", "DequeueTps")
    assert [table[f"timer{name}"] for name in names] == ["2", "7", "40", "1.5", "0.0"]
    assert table["commitLogDiskRatio_/store/commitlog"] == "0.25"
    assert table["commitLogDirCapacity"] == "Total : 1.0 GiB, Free : 768.0 MiB."
    assert (table["sendThreadPoolQueueSize"], table["pullThreadPoolQueueSize"]) == ("1", "2")
    assert table["sprocketHeldPulls"] == "3"
    heads = {name for name, value in table.items() if "HeadWait" in name and value != "0"}
    assert heads == {"sendThreadPoolQueueHeadWaitTimeMills"}
    assert table[heads.pop()] == "40"
    assert table["putMessageDistributeTime"].startswith("[<=0ms]:0 [0~10ms]:0 ")
    assert table["commitLogMaxOffset"] == str(store.end)
    assert table["dispatchBehindBytes"] == str(store.end - store.dispatched) == "0"
    store.append(new())
    assert info.table()["dispatchBehindBytes"] == str(store.end - store.dispatched) != "0"


def test_spans_and_sizes_are_told_as_rocketmq_does() -> None:
    """Days to seconds; bytes in the largest unit."""
    lasting = 90_061
    assert runtime_info.lasting(lasting) == "[ 1 days, 1 hours, 1 minutes, 1 seconds ]"
    sizes = [runtime_info.size_text(size) for size in (0, 1023, 1024, 1536 << 20, (1 << 63) - 1)]
    assert sizes == ["0 B", "1023 B", "1.0 KiB", "1.5 GiB", "8.0 EiB"]
