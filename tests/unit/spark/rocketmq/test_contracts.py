"""What Spark asks of a Python source without checking it, and the tests that hold ours to it.

Each of these is a trap: the engine does not say what is wrong, or says it much later, or loses
rows. The tables name the test of each; a test of this module looks whether it is there.

Engine: what readers and writers must give, and may be given.
Offsets: what a stream's own answers must be, as the engine asks twice, anew, and by text.
Losses: what is gone before it was read, each with failOnDataLoss (an error) and without (a warning
    in the log, and the query goes on).
"""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from tests.unit.spark.samples import directory, encoded, found, schema

from sprocket.spark.rabbitmq.reader import VhostsReader
from sprocket.spark.rocketmq.folder import DirectoryReader, DirectoryStream
from sprocket.spark.rocketmq.live.reader import TopicReader
from sprocket.spark.rocketmq.live.stream import LiveReader
from sprocket.spark.rocketmq.rows.batches import Batches

HERE = Path(__file__).resolve().parent

ENGINE = {
    "batches have exactly the schema that Spark passes, in its order": [
        "rows/test_batches.py::test_any_schema_of_our_columns",
        "test_contracts.py::test_the_arrow_types_of_all_columns",
    ],
    "times are in microseconds and UTC; one that no calendar has is null": [
        "folder/test_scan.py::test_real_stores_row_for_row",
        "rows/test_columns.py::test_times_that_no_calendar_has_are_null",
    ],
    "a map has each name once, with its last value": [
        "rows/test_properties.py::test_equal_the_plain_decoder",
        "rows/test_properties.py::test_repeats_are_found_among_many_pairs",
    ],
    "batches are bounded in rows and in bytes": [
        "rows/test_batches.py::test_long_slices_are_cut_into_batches",
        "rows/test_batches.py::test_packed_bodies_are_unpacked_unless_not_wanted",
        "folder/test_slices.py::test_slices_are_bounded",
    ],
    "an empty list of partitions is replaced by one of None, which gives no rows": [
        "test_source.py::test_an_empty_log_gives_no_rows",
        "live/test_reader.py::test_an_empty_plan_gives_nothing",
    ],
    "the list of partitions is a list": [
        "folder/test_reader.py::rows",
        "live/test_reader.py::planned",
    ],
    "no reader takes filters: Spark would not apply them again": [
        "test_contracts.py::test_no_reader_takes_filters",
        "test_source.py::test_a_frame_is_filtered_again_and_again",
    ],
    "write() answers with a message of its own": [
        "sink/test_sink.py::test_a_frame_is_written_and_read_again",
    ],
    "a task that is tried again, or ends after abort(), writes no row under a new key": [
        "sink/test_sink_sessions.py::test_a_task_that_is_tried_again",
        "sink/test_sink.py::test_a_write_that_is_repeated_has_the_same_unique_keys",
    ],
    "load() of a list comes as a JSON text, names of options in lower case": [
        "test_options.py::test_values_are_read",
        "test_options.py::test_what_is_wanted_of_a_batch",
        "test_source.py::test_a_list_of_directories",
    ],
    "after an error of streamReader() Spark adds one of its own, and ours is the one shown": [
        "../test_failures.py::test_the_last_line_of_a_worker_counts",
    ],
    "readers and tasks are pickled, and open nothing before they are used": [
        "folder/test_stream.py::test_readers_travel",
        "live/test_stream.py::test_readers_travel_without_connections",
    ],
}

OFFSETS = {
    "the first offset is asked for twice and must not move meanwhile": [
        "live/test_stream.py::test_the_initial_offset_is_the_same_when_asked_again",
        "folder/test_stream.py::test_the_initial_offset_is_the_same_when_asked_again",
    ],
    "it is asked for anew after a failure before the first batch; a start behind the end is loss": [
        "live/test_stream.py::test_latest_after_a_failed_start_is_refused",
        "folder/test_stream.py::test_latest_after_a_failed_start_is_refused",
        "live/test_offsets.py::test_an_end_before_the_start_is_data_loss",
    ],
    "read_stream determines `latest` and times once, and keeps them beside the checkpoint": [
        "test_kept_start.py::test_latest_means_the_first_time",
        "test_kept_start.py::test_a_time_and_a_queue",
        "test_kept_start.py::test_a_directory",
    ],
    "without it a query starts at the oldest": [
        "test_options.py::test_a_path_or_nameservers_and_topic_are_enough",
    ],
    "offsets are compared as text: the same ones give the same text": [
        "live/test_offsets.py::test_one_text_for_the_same_offsets",
        "live/test_offsets.py::test_the_form_is_kept",
        "live/test_stream.py::test_an_offset_that_did_not_move_is_given_back",
        "folder/test_stream.py::test_an_offset_that_did_not_move_is_given_back",
    ],
    "once=True takes everything, whatever the limits": [
        "live/test_stream.py::test_a_limit_and_once",
        "folder/test_stream.py::test_once_takes_everything",
    ],
    "availableNow does not pass the end that it began with, and ends also if topics vanish": [
        "live/test_stream.py::test_available_now_ends",
        "live/test_stream.py::test_available_now_ends_when_the_topic_vanished",
        "folder/test_stream.py::test_available_now_ends",
        "folder/test_stream.py::test_available_now_ends_when_the_log_is_gone",
    ],
    "a stream that is limited hands the limit to Spark, and gets it back": [
        "folder/test_stream.py::test_the_limit_that_spark_passes_back",
        "live/test_stream.py::test_few_messages_wait",
        "folder/test_stream.py::test_few_messages_wait",
    ],
    "a batch that was not finished is planned again from its two offsets alone": [
        "live/test_stream.py::test_batches_are_planned_purely",
        "folder/test_stream.py::test_batches_are_planned_alike_after_a_restart",
    ],
    "the last batch is never committed to the source; progress of the group has it all the same": [
        "live/test_stream.py::test_progress_is_noted_in_the_group",
    ],
}

LOSSES = {
    "a query starts below the oldest message that is kept": [
        "live/test_cluster.py::test_cleaned_away_messages",
        "live/test_reader.py::test_offsets_outside_of_their_queue",
        "folder/test_reader.py::test_offsets_that_are_gone",
        "folder/test_stream.py::test_retention",
        "folder/test_stream.py::test_retention_of_all_that_was_written",
    ],
    "a topic or a queue is gone": [
        "live/test_stream.py::test_queues_that_are_gone",
        "live/test_stream.py::test_available_now_tells_of_what_was_gone_before",
    ],
    "the end went backwards": [
        "live/test_stream.py::test_a_queue_that_went_backwards",
        "live/test_cluster.py::test_a_queue_that_lost_its_end",
        "folder/test_stream.py::test_a_log_that_became_shorter",
        "folder/test_stream.py::test_a_log_that_was_cut_back_and_has_grown_again",
    ],
    "a new queue has lost its first messages": [
        "live/test_stream.py::test_a_new_queue_that_lost_messages_already",
    ],
    "a file is removed while a task reads it": [
        "folder/test_scan.py::test_a_file_that_vanishes_while_reading",
        "folder/test_stream.py::test_a_file_removed_during_a_task",
        "folder/test_stream.py::test_a_file_removed_while_a_batch_is_planned",
    ],
    "a record is damaged: that goes by `mode`, and is not a loss": [
        "folder/test_scan.py::test_damage_fails_by_default_and_is_named",
        "folder/test_stream.py::test_damage_goes_by_the_mode",
        "live/test_cluster.py::test_rubbish_in_an_answer",
    ],
    "queues and topics that are found later are read from their beginning": [
        "live/test_stream.py::test_new_queues_are_read_from_the_beginning",
        "live/test_stream.py::test_new_topics_of_a_pattern",
    ],
}


@pytest.mark.parametrize(
    "holder",
    sorted({one for table in (ENGINE, OFFSETS, LOSSES) for some in table.values() for one in some}),
)
def test_each_has_its_test(holder: str) -> None:
    """The tables name functions that are there."""
    module, _, name = holder.partition("::")
    assert f"def {name}(" in (HERE / module).read_text(encoding="utf-8")


def test_the_arrow_types_of_all_columns() -> None:
    """Spark compares the first batch with its own schema, and wants no other kind of text."""
    text, at = pa.string(), pa.timestamp("us", "UTC")
    wanted = {
        "topic": text,
        "queueId": pa.int32(),
        "queueOffset": pa.int64(),
        "body": pa.binary(),
        "tags": text,
        "keys": text,
        "properties": pa.map_(text, text),
        "msgId": text,
        "bornTimestamp": at,
        "storeTimestamp": at,
        "brokerName": text,
        "bornHost": text,
        "storeHost": text,
        "flag": pa.int32(),
        "sysFlag": pa.int32(),
        "bodyCRC": pa.int32(),
        "reconsumeTimes": pa.int32(),
        "preparedTransactionOffset": pa.int64(),
        "transactionState": text,
        "physicalOffset": pa.int64(),
        "size": pa.int32(),
        "offsetMsgId": text,
        "deliverAt": at,
        "record": pa.binary(),
        "corruption": text,
    }
    options = directory(columns=",".join(wanted))
    (batch,) = Batches(schema(options), options).of(found(encoded(2)), "here")
    assert dict(zip(batch.schema.names, batch.schema.types, strict=True)) == wanted
    assert all(field.nullable for field in batch.schema)
    assert [column.type for column in batch.columns] == list(wanted.values())


@pytest.mark.parametrize("made", [DirectoryReader, TopicReader, VhostsReader])
def test_no_reader_takes_filters(made: type[DataSourceReader]) -> None:
    """A frame that is used twice would be planned with the filters of its first use."""
    assert made.pushFilters is DataSourceReader.pushFilters


@pytest.mark.parametrize("made", [DirectoryStream, LiveReader])
def test_streams_are_asked_with_a_limit(made: type[DataSourceStreamReader]) -> None:
    """The older question without a limit knows none."""
    names = made.latestOffset.__code__.co_varnames[: made.latestOffset.__code__.co_argcount]
    assert names == ("self", "start", "limit")
