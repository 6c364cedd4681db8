"""Options: each is read, and what is wrong is said once and clearly."""

import re
import sys
from pathlib import Path

import pytest

from sprocket.base.compression import Method
from sprocket.base.errors import SettingsError
from sprocket.spark.mode import Mode
from sprocket.spark.rocketmq import read_sink
from sprocket.spark.rocketmq.options import (
    EARLIEST,
    LATEST,
    OPTIONS,
    Where,
    read_any,
    read_directory,
    read_live,
)

LIVE = {"nameserver": "127.0.0.1:9876", "subscribe": "orders"}


def test_a_path_or_nameservers_and_topic_are_enough() -> None:
    """A path is enough for a directory; NameServer and topic are for a stream."""
    options = read_directory({"path": "store"})
    assert (options.path, options.mode, options.view) == ("store", Mode.FAILFAST, "full")
    assert options.decompress
    assert options.fail_on_data_loss
    live = read_live(LIVE)
    assert (live.topics, live.starting_offsets) == (("orders",), EARLIEST)
    assert live.retries_max * live.retry_wait_ms == 60_000


def test_values_are_read() -> None:
    """Names come in lower case from Spark; values may have their own spelling."""
    options = read_directory(
        {
            "path": "file:///s",
            "topic": " a, b ",
            "mode": "permissive",
            "verifycrc": "TRUE",
            "maxpartitionbytes": "64m",
            "view": "META",
        }
    )
    assert (options.path, options.topics, options.mode) == ("/s", ("a", "b"), Mode.PERMISSIVE)
    assert options.verify_crc
    assert (options.partition_bytes_max, options.view) == (64 << 20, "meta")
    assert read_live(LIVE | {"startingoffsets": "latest"}).starting_offsets == LATEST
    chosen = read_live(LIVE | {"startingoffsets": '{"orders":{"broker-a":{"0":23,"1":-2}}}'})
    assert chosen.starting_offsets == {"orders": {"broker-a": {0: 23, 1: -2}}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"subscrib": "x"}, "unknown option 'subscrib'; did you mean subscribe"),
        (
            {"endingoffsets": "earliest"},
            r"'endingOffsets' must not be earliest \(-2\) in spark.read",
        ),
        ({"startingoffsets": "latest"}, r"'startingOffsets' must not be latest \(-1\)"),
        ({"startingoffsets": '{"t":{"b":{"0":-1}}}'}, r"must not be latest \(-1\)"),
        ({"endingoffsets": '{"t":{"b":{"0":-2}}}'}, r"must not be earliest \(-2\)"),
        ({"startingoffsets": '{"t":{"b":{"-1":0}}}'}, "must be earliest, latest or JSON"),
        (
            {"maxoffsetspertrigger": "5"},
            "'maxOffsetsPerTrigger' does not go with spark.read of a st",
        ),
        ({"startingoffsetsbytimestamp": '{"t":{"b":{"0":-1}}}'}, "must be ms since 1970 as JSON"),
        ({"startingtimestamp": "yesterday"}, "must be ms since 1970, or a time with its zone"),
        ({"startingtimestamp": "2026-01-31T12:00:00"}, "a time with its zone"),
        ({"endingtimestamp": "-5"}, "must be ms since 1970"),
        ({"subscribepattern": "("}, "must be a regular expression"),
        ({"assign": '{"t":[0]}'}, "must be JSON such as"),
        ({"assign": '{"t":{"b":["0"]}}'}, "must be JSON such as"),
        ({"assign": '{"t":{"b":[]}}'}, "must be JSON such as"),
        (
            {"subscribe": "t", "assign": '{"t":{"b":[0]}}'},
            "subscribe and assign exclude each other",
        ),
        ({"subscribe": "t", "filter": "a >"}, "must be a condition in SQL92"),
        ({"subexpression": "a", "filter": "a > 1"}, "subExpression and filter exclude each other"),
        (
            {"subscribe": "t", "startingoffsets": '{"u":{"b":{"0":1}}}'},
            "names queue 0 of topic 'u'",
        ),
        (
            {"assign": '{"t":{"b":[0]}}', "endingoffsets": '{"t":{"b":{"1":1}}}'},
            "endingOffsets names queue 1 of topic 't' on 'b', which is not read",
        ),
        (
            {"startingoffsets": '{"t":{"b":{"0":1}}}', "endingoffsets": '{"t":{"c":{"0":1}}}'},
            "a store directory is of one broker; the options name b and c",
        ),
        ({"subexpression": "a > 3"}, "must be tags with"),
        ({"paths": '["a", "b"]'}, "say which store to read"),
        ({"nameserver": "n:1"}, "'nameServer' does not go with spark.read"),
        ({"view": "most"}, "must be one of full, meta, raw"),
        ({"decompress": "yes"}, "must be true or false"),
        ({"maxpartitionbytes": "0"}, "must be a size"),
        ({"columns": ","}, "must name at least one"),
        ({"subscribe": "a", "topic": "b"}, "given twice"),
        ({"path": ""}, "must name a folder"),
    ],
)
def test_wrong_options_of_a_directory_are_named(given: dict[str, str], said: str) -> None:
    """What is unknown, unreadable or out of place is named."""
    with pytest.raises(SettingsError, match=said):
        read_directory({"path": "store", **given})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"path": "store"}, "'path' does not go with spark.readStream"),
        (
            {"endingoffsets": "latest"},
            "'endingOffsets' does not go with spark.readStream of live t",
        ),
        ({"fs.region": "x"}, r"'fs\.\*' does not go with spark.readStream of live"),
        ({"startingoffsets": "first"}, "must be earliest, latest or JSON"),
        ({"startingoffsets": '{"t":{"b":{"0":-3}}}'}, "offsets from 0"),
        ({"startingoffsets": '{"t":{"b":{"0":1.5}}}'}, "offsets from 0"),
        ({"startingoffsets": "[]"}, "must be earliest"),
        ({"maxoffsetspertrigger": "0"}, "whole number from 1"),
        ({"nameserver": ""}, "say where the cluster is"),
        ({"commitoffsets": "true"}, "needs a name to note progress under"),
        ({"maxbytespertrigger": "1m"}, "'maxBytesPerTrigger' does not go with"),
    ],
)
def test_wrong_options_of_a_stream_are_named(given: dict[str, str], said: str) -> None:
    """The same for streams."""
    with pytest.raises(SettingsError, match=said):
        read_live(LIVE | given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"minoffsetspertrigger": "5", "maxoffsetspertrigger": "4"}, "which maxOffsetsPerTrigger"),
        ({"maxtriggerdelay": "1m"}, "goes with minOffsetsPerTrigger"),
        ({"startingphysicaloffset": "9", "startingoffsets": "latest"}, "exclude each other"),
        ({"paths": '["/a","/b"]'}, "'paths' does not go with spark.readStream"),
        ({"minoffsetspertrigger": "5", "maxtriggerdelay": "soon"}, "must be a time such as"),
        ({"startingphysicaloffset": "-1"}, "whole number from 0"),
        ({"nameserver": "n:1"}, "does not go with spark.readStream of a store directory"),
    ],
)
def test_wrong_options_of_a_stream_over_a_directory(given: dict[str, str], said: str) -> None:
    """What contradicts itself or has no effect is named; so is what only batches or topics take."""
    with pytest.raises(SettingsError, match=said):
        read_directory({"path": "store", **given}, is_stream=True)


def test_options_of_streams_are_not_for_tables() -> None:
    """A limit of micro-batches would not be heeded, nor one of bytes over queues."""
    limits = {"maxbytespertrigger": "1m", "minoffsetspertrigger": "2", "maxtriggerdelay": "1500"}
    read = read_directory({"path": "store", **limits}, is_stream=True)
    assert (read.bytes_per_trigger_max, read.offsets_per_trigger_min) == (1 << 20, 2)
    assert read.trigger_delay_ms_max == 1500
    with pytest.raises(SettingsError, match="'maxBytesPerTrigger' does not go"):
        read_directory({"path": "store", **limits})
    with pytest.raises(SettingsError, match="does not go with spark"):
        read_live(LIVE | limits)


def test_what_must_be_said() -> None:
    """Without a store, and without a topic, there is nothing to read."""
    with pytest.raises(SettingsError, match="which store"):
        read_directory({})
    with pytest.raises(SettingsError, match="what to read"):
        read_live({"nameserver": "n:1"})


def test_the_guide_lists_every_option() -> None:
    """The table of docs/guides/spark.md has exactly the declared options, with their notes."""
    guide = Path(__file__).resolve().parents[4] / "docs" / "guides" / "spark.md"
    text = guide.read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `([\w.*]+)` \| [a-z, ]+ \|.*?\| (.+) \|$", text, re.M))
    assert listed == {name: option.note for name, option in OPTIONS.items()}


def test_the_guide_says_where_each_option_goes() -> None:
    """The second column of the same table."""
    guide = Path(__file__).resolve().parents[4] / "docs" / "guides" / "spark.md"
    listed = re.findall(r"^\| `([\w.*]+)` \| ([a-z, ]+) \|.*\|.*\|$", guide.read_text(), re.M)
    words = {
        "both": Where.BOTH,
        "directory": Where.DIRECTORY,
        "live": Where.LIVE,
        "batch": Where.BATCH,
        "stream": Where.STREAM,
        "live, sink": Where.WIRE,
        "sink": Where.SINK,
        "directory batch": Where.DIRECTORY_BATCH,
        "directory stream": Where.DIRECTORY_STREAM,
        "live stream": Where.LIVE_STREAM,
    }
    found = {name: words[where] for name, where in listed if name in OPTIONS}
    assert found == {name: option.where for name, option in OPTIONS.items()}


def test_what_is_wanted_of_a_batch() -> None:
    """Topics, queues, bounds and tags, each as its own kind of value."""
    options = read_directory(
        {
            "paths": '["/a", "file:///b", "s3://c/d"]',
            "assign": '{"t":{"b":[0,1]}}',
            "endingoffsets": '{"t":{"b":{"0":9,"1":-1}}}',
            "startingtimestamp": "2026-01-31T13:00:00.5+01:00",
            "subexpression": " b || a ",
            "propertiesformat": "JSON",
        }
    )
    assert options.paths == ("/a", "/b", "s3://c/d")
    assert options.assigned == {"t": {"b": (0, 1)}}
    assert options.ending_offsets == {"t": {"b": {0: 9, 1: -1}}}
    assert options.starting_at_ms == 1_769_860_800_500
    assert (options.tags, options.properties_format) == (("a", "b"), "json")
    assert read_directory({"path": "s", "subexpression": "*"}).tags == ()
    pattern = read_directory({"path": "s", "subscribepattern": "a.c"})
    names = [name for name in ("abc", "abcd", "xabc") if pattern.names_topic(name)]
    assert names == ["abc"]


def test_settings_of_the_file_system_are_kept_and_hidden() -> None:
    """They keep their names; nothing that prints options shows a value."""
    options = read_directory({"path": "s3://b", "fs.secret_key": "hush", "fs.region": "here"})
    assert dict(options.file_system) == {"region": "here", "secret_key": "hush"}
    live = read_live(LIVE | {"tlskeypassword": "hush"})
    assert "hush" not in f"{options}{live}"


def test_a_schema_depends_on_what_batches_and_streams_share() -> None:
    """Spark asks for it before it says which of the two is wanted."""
    assert read_any(LIVE | {"maxoffsetspertrigger": "5"}).offsets_per_trigger_max == 5
    assert read_any(LIVE | {"endingoffsets": "latest", "view": "raw"}).view == "raw"
    assert read_any({"path": "s", "startingoffsets": "latest"}).path == "s"
    with pytest.raises(SettingsError, match="'path' does not go with live topics"):
        read_any(LIVE | {"path": "s"})


def test_names_of_the_old_connector() -> None:
    """`topic`, `group` and `pullTimeout` are what they were called there."""
    live = read_live({"nameServer": "n:1", "topic": "t", "pullTimeout": "3000", "group": "g"})
    assert (live.topics, live.pull_timeout_ms, live.consumer_group) == (("t",), 3000, "g")
    sink = read_sink({"nameServer": "n:1", "topic": "t", "group": "g", "pullTimeout": "3000"})
    assert (sink.target_topic, sink.pull_timeout_ms, sink.producer_group) == ("t", 3000, "g")


def test_names_that_no_group_may_have() -> None:
    """They are refused before anything is asked for under them."""
    with pytest.raises(SettingsError, match=r"'consumerGroup' is 'a b': .* letters, digits or"):
        read_live(LIVE | {"consumergroup": "a b"})
    with pytest.raises(SettingsError, match=r"'producerGroup' is '': .* 1 to 255 letters"):
        read_sink({"nameserver": "n:1", "producergroup": ""})


def test_tls_of_the_stream() -> None:
    """Off by itself; every file has an option, and none goes with a directory."""
    given = {"nameServer": "a:1", "subscribe": "t"}
    assert read_live(given).tls is False
    more = {
        "tls": "true",
        "tlsTrustPath": "ca",
        "tlsCertPath": "c",
        "tlsKeyPath": "k",
        "tlsKeyPassword": "p",
    }
    found = read_live(given | more)
    files = found.tls_trust_path, found.tls_cert_path, found.tls_key_path, found.tls_key_password
    assert (found.tls, files) == (True, ("ca", "c", "k", "p"))
    with pytest.raises(SettingsError, match="does not go with"):
        read_directory({"path": "/s", "tls": "true"})


def test_credentials_of_stream_and_sink() -> None:
    """Given, or in a file; a password is in no `repr`."""
    more = {"accessKey": "alice", "secretKey": "hunter2", "credentialsPath": "/etc/tools.yml"}
    for found in (
        read_live({"nameServer": "a:1", "subscribe": "t"} | more),
        read_sink({"nameserver": "a:1"} | {name.lower(): text for name, text in more.items()}),
    ):
        assert (found.access_key, found.secret_key) == ("alice", "hunter2")
        assert found.credentials_path == "/etc/tools.yml"
        assert "hunter2" not in repr(found)
    with pytest.raises(SettingsError, match="does not go with"):
        read_directory({"path": "/s", "accessKey": "alice"})


def test_options_of_a_sink() -> None:
    """`topic` is its own there; what Spark adds is let pass, and what a source has is refused."""
    given = {"nameserver": "n:1", "checkpointlocation": "/c"}
    options = read_sink({**given, "topic": "orders", "maxmessagespersecond": "100"})
    assert (options.target_topic, options.topics) == ("orders", ())
    assert options.messages_per_second_max == 100
    for wrong, said in (
        ({**given, "subscribe": "orders"}, "'subscribe' does not go with writing to topics"),
        ({"topic": "orders"}, "say where the cluster is"),
        ({**given, "topics": "orders"}, "unknown option 'topics'; did you mean topic"),
    ):
        with pytest.raises(SettingsError, match=said):
            read_sink(wrong)
    with pytest.raises(SettingsError, match="'txnAppId' does not go with"):
        read_live(LIVE | {"txnappid": "a"})


def test_how_bodies_are_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a method whose library is there, or not at all."""
    given = {"nameserver": "n:1"}
    assert read_sink(given | {"compression": "NONE"}).compression is None
    assert read_sink(given | {"compression": "zstd"}).compression is Method.ZSTD
    with pytest.raises(SettingsError, match="must be one of none, zlib, lz4, zstd"):
        read_sink(given | {"compression": "gzip"})
    monkeypatch.setitem(sys.modules, "lz4", None)
    with pytest.raises(SettingsError, match="'compression' is 'lz4': LZ4 needs a package"):
        read_sink(given | {"compression": "lz4"})


def test_an_unknown_option_suggests_one_that_belongs_there() -> None:
    """Whose word it contains; only a misspelling leads elsewhere."""
    with pytest.raises(SettingsError, match=r"'groupId'; did you mean consumerGroup\?$"):
        read_live(LIVE | {"groupId": "g"})
    with pytest.raises(SettingsError, match=r"'groupid'; did you mean producerGroup\?$"):
        read_sink({"nameserver": "n:1", "groupid": "g"})
    with pytest.raises(SettingsError, match=r"'namesrv'; did you mean nameServer\?$"):
        read_directory({"path": "store", "namesrv": "n:1"})
    with pytest.raises(SettingsError, match="'zzz'; there are path, paths") as raised:
        read_directory({"path": "store", "zzz": "1"})
    assert "maxMessageBytes" not in str(raised.value)
