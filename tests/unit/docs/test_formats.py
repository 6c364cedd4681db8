"""The pages of docs/formats: their examples are what the code reads and writes."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tests.stores import filled, log_files, new, overwrite

from sprocket.base.disk import RealDisk, read_file
from sprocket.base.place import Place
from sprocket.rocketmq.broker.delay import DelayProgress
from sprocket.rocketmq.broker.groups import ConsumerOffsets
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec import record_layout
from sprocket.rocketmq.codec.bloom import Bloom
from sprocket.rocketmq.codec.record import Entry, Extra, erased, ids, properties, record
from sprocket.rocketmq.geometry import IndexGeometry, QueueGeometry
from sprocket.rocketmq.model.hashes import hash32
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.settings import BrokerSettings, TopicSettings
from sprocket.rocketmq.store import topic_table
from sprocket.rocketmq.store.compaction.compacted_file import END_UNIT, unit_of
from sprocket.rocketmq.store.index import Indexes, key_string
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.log import Damage, log_repair
from sprocket.rocketmq.store.queue import FileQueues, OtherKinds, RocksQueues, read_all
from sprocket.rocketmq.store.recovery import Checkpoint, checkpoint
from sprocket.rocketmq.store.timer import TimerRecord, timer_log
from sprocket.runtime.driver.proxy_header import ConnectionOpening, ProxiedClient, ProxyHeaderReader
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

PAGES = Path(__file__).parents[3] / "docs" / "formats"


def example(page: str) -> bytes:
    """Return the bytes of the one hex example of a page."""
    blocks = re.findall(r"```hex\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)
    assert len(blocks) == 1
    return bytes.fromhex(blocks[0])


def test_the_record_on_its_page() -> None:
    """It is what encoding gives and decoding understands."""
    data = example("record.md")
    message = record.decode(data, check_tail=True)
    assert message.properties == {"TAGS": "TagA", "KEYS": "k1", "__CRC32#": "6197673541"}
    assert (message.topic, message.body, message.queue_offset) == ("TopicTest", b"hello", 7)
    new = NewRecord(
        "TopicTest",
        3,
        b"hello",
        properties.encode({"TAGS": "TagA", "KEYS": "k1"}),
        ids.host_bytes("127.0.0.1", 12345),
        ids.host_bytes("192.168.0.1", 10911),
        born_at_ms=1_700_000_000_000,
    )
    assert data == record.encode(
        new,
        queue_offset=7,
        physical_offset=1024,
        stored_at_ms=1_700_000_000_123,
        crc_tail=True,
    )


def test_the_erased_message_on_its_page() -> None:
    """It is what becomes of the message on the page of records."""
    new = NewRecord(
        "TopicTest",
        3,
        b"hello",
        properties.encode({"TAGS": "TagA", "KEYS": "k1"}),
        ids.host_bytes("127.0.0.1", 12345),
        ids.host_bytes("192.168.0.1", 10911),
        born_at_ms=1_700_000_000_000,
    )
    stored = record.encode(
        new,
        queue_offset=7,
        physical_offset=1024,
        stored_at_ms=1_700_000_000_123,
        crc_tail=False,
    )
    data = example("erased-message.md")
    assert data == erased.erase(stored)
    message = record.decode(data, check_tail=True)
    assert (message.topic, message.body, message.properties) == ("TopicTest", b"", {})


def test_the_queue_file_on_its_page() -> None:
    """Putting its messages gives it, and it loads as told."""
    disk = SimulatedDisk()
    made = FileQueues(disk, "/made", QueueGeometry(units_per_file=4))
    first = Entry("T", 0, 1, 1024, 168, hash32("TagA"), 0)
    made.put_round([first, Entry("T", 0, 2, 1192, 168, 0, 0)])
    assert example("consume-queue.md") == read_file(disk, f"/made/T/0/{0:020d}")
    loaded = FileQueues(disk, "/made", QueueGeometry(units_per_file=4))
    loaded.load(clean=True)
    queue = loaded.by_key["T", 0]
    assert (queue.min_offset, queue.max_offset, loaded.end) == (1, 3, 1360)


def test_the_extended_units_on_their_page() -> None:
    """Putting their messages gives them, and the queue's units have their addresses."""
    disk = SimulatedDisk()
    others = OtherKinds("/ext", "/batches", extend=True)
    made = FileQueues(disk, "/made", QueueGeometry(extension_bytes=256), others=others)
    made.load()
    bits = Extra(bit_map=Bloom().bit_map([Bloom().positions("Sql_g0", "Sql")]))
    code = hash32("TagB")
    first = Entry("Sql", 0, 0, 1024, 168, code, 1_700_000_000_123, extra=bits)
    made.put_round([first, Entry("Sql", 0, 1, 1192, 168, 0, 1_700_000_000_124)])
    data = example("consume-queue-extension.md")
    assert data.ljust(256, b"\0") == read_file(disk, f"/ext/Sql/0/{0:020d}")
    queue = made.by_key.get(("Sql", 0))
    assert queue is not None
    assert [unit[3] for unit in queue.units(0, 2)] == [-(1 << 63), 34 - (1 << 63)]


def test_the_batch_queue_on_its_page() -> None:
    """Putting its records gives it."""
    disk = SimulatedDisk()
    others = OtherKinds("/ext", "/batches", batch_topics={"T"})
    made = FileQueues(disk, "/made", QueueGeometry(batch_units_per_file=3), others=others)
    batch = Entry("T", 0, 0, 1024, 300, 0, 1_700_000_000_123, extra=Extra(count=3))
    code = hash32("TagA")
    made.put_round([batch, Entry("T", 0, 3, 1324, 168, code, 1_700_000_000_124)])
    data = example("batch-queue.md")
    assert data.ljust(3 * 46, b"\0") == read_file(disk, f"/batches/T/0/{0:020d}")


def test_the_compacted_file_on_its_page() -> None:
    """Copying its record gives the units."""
    code = hash32("TagA")
    entry = Entry("T", 0, 7, 4711, 168, code, 1_700_000_000_123)
    assert example("compaction-files.md") == unit_of(entry, 0) + END_UNIT


def test_the_unit_in_rocksdb_on_its_page(tmp_path: Path) -> None:
    """Putting its message gives key and value."""
    made = RocksQueues(RealDisk(), str(tmp_path / "made"))
    made.put_round([Entry("T", 1, 2, 1192, 168, 0, 1_700_000_000_123)])
    made.close()
    ((key, value),) = read_all(RealDisk(), str(tmp_path / "made")).items()
    assert example("rocksdb-queues.md") == key + value


def test_the_index_file_on_its_page() -> None:
    """Its keys are found."""
    disk = SimulatedDisk()
    disk.make_folder("/index")
    file = disk.open("/index/20231114221320123", write=True, create=True)
    file.write([example("index-file.md")], 0)
    indexes = Indexes(disk, "/index", IndexGeometry(slots=5, units=8), FakeClock())
    indexes.load()
    assert indexes.find(key_string("TopicTest", "k1"), 64) == [300, 100]
    assert indexes.find(key_string("TopicTest", "k2"), 64) == [500]


def test_the_properties_on_their_page() -> None:
    """They decode as told."""
    expected = {"TAGS": "TagA", "KEYS": "k1 k2", "größe": "7"}
    assert expected == properties.decode(example("properties.md"))
    assert properties.encode(expected)[:-1] == example("properties.md")


def test_the_checkpoint_on_its_page() -> None:
    """It is what encoding gives and decoding understands."""
    wanted = Checkpoint(1_700_000_003_000, 1_700_000_003_000, 0, 0, 1192)
    assert checkpoint.decode(example("checkpoint.md")) == wanted
    assert checkpoint.encode(wanted) == example("checkpoint.md")


def test_the_timer_record_on_its_page() -> None:
    """It is what encoding gives."""
    wanted = TimerRecord(-1, 1, 1_795_263_159_000, 2000, 14_744, 452, hash32("TimerA"))
    assert timer_log.encode(wanted) == example("timer-files.md")


def test_the_proxy_header_on_its_page() -> None:
    """It names the client."""
    data = example("proxy-header.md")
    opening = ProxyHeaderReader().receive(data)
    assert opening == ConnectionOpening(
        has_header=True, origin=ProxiedClient("203.0.113.7", 4711), rest=b""
    )


def test_the_journals_on_their_pages() -> None:
    """They are read as told, and writing the same gives them."""
    disk = SimulatedDisk()
    disk.make_folder("/s/config")
    log = SimpleNamespace(written=0, synced=0)
    progress = DelayProgress(Place(disk, "/s", FakeClock()), cast("Any", log))
    for log.written, level, offset in ((40960, 1, 64), (41216, 3, 1)):
        progress.note(level, offset)
    offsets = ConsumerOffsets(Place(disk, "/s", FakeClock()))
    offsets.commit("dashboards", "flights", 3, 1200)
    offsets.commit("dashboards", "flights", 3, 1232)
    assert read_file(disk, "/s/config/sprocket.delays.1") == example("delay-offsets.md")
    assert read_file(disk, "/s/config/sprocket.offsets.1") == example("consumer-offsets.md")
    topics = Topics(Place(disk, "/s", FakeClock()), BrokerSettings(), TopicSettings())
    topics.put(TopicConfig(name="T", read_queues=3))
    topics.remove("T")
    assert read_file(disk, "/s/config/sprocket.topics.2") == example("table-journal.md")
    again = disk.kill()
    assert topic_table.read(again, StoreLayout("/s")) == {one.name: one for one in topics.all()}
    assert ConsumerOffsets(Place(again, "/s", FakeClock())).get("dashboards", "flights", 3) == 1232
    found = DelayProgress(Place(again, "/s", FakeClock()), cast("Any", log))
    assert [found.get(level) for level in (1, 2, 3)] == [64, 0, 1]


def test_the_padding_on_the_folders_page() -> None:
    """Mending a damaged record gives it, and it is in no queue and in no index."""
    data = example("store-folder.md")
    padding = record.decode(data)
    assert (padding.topic, padding.store_size, padding.sys_flag) == ("DAMAGED", 163, 12)
    assert not record.entry(data).queueable
    disk, store = filled(0)
    store.append(new("topic", 0, b"x" * 40))
    store.append(new("topic", 0, b"y"))
    store.write()
    files = log_files(disk)
    overwrite(files, record_layout.BODY_CRC_AT, b"????")
    log_repair.pad(files, [Damage(0, 163, "", 0)])
    assert files.segment(0).read(0, 163) == data
