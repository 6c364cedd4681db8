"""A streaming DataFrame whose start is determined once, and kept with the query's checkpoint.

Spark asks a source where a new query starts, and asks again if the query failed before its first
micro-batch was done. The source is not told where the checkpoint is. So `latest`, or a time, would
then mean another place than before, and messages from between would never be read.
"""

import json
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from sprocket.base.errors import DataLost
from sprocket.spark.files import open_files
from sprocket.spark.rocketmq import options as option_table
from sprocket.spark.rocketmq.folder import GrowingLog, starting_place
from sprocket.spark.rocketmq.live import chosen, offsets
from sprocket.spark.rocketmq.live.cluster import open_live
from sprocket.spark.rocketmq.options import LATEST, Options

KEPT = "sprocket-start"
"""Name of the folder in the checkpoint's that the start is written into, as one line of text."""
_VERSION = 1
_TIMES = ("startingtimestamp", "startingoffsetsbytimestamp", "startingoffsetsbytimestampstrategy")
"""Options that offsets of queues stand in for, in lower case."""


def read_stream(spark: Any, checkpoint: str, schema: Any, options: Mapping[str, object]) -> Any:
    """See `sprocket.spark.read_stream`."""
    given = {name.lower(): _text(value) for name, value in options.items()}
    if option_table.is_live(given):
        chosen_ones = option_table.read_live(given)
    else:
        chosen_ones = option_table.read_directory(given, is_stream=True)
    if _may_move(chosen_ones):
        given = _fixed(given, chosen_ones, _kept(spark, checkpoint, chosen_ones))
    path = given.pop("path", None)
    reader = spark.readStream.format("rocketmq").options(**given)
    if schema is not None:
        reader = reader.schema(schema)
    return reader.load() if path is None else reader.load(path)


def _text(value: object) -> str:
    """Return a value as Spark's own readers write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _may_move(options: Options) -> bool:
    """Tell whether the start would be another one if it was determined later."""
    wanted = options.starting_offsets
    if options.starting_at_ms is not None or options.starting_times is not None:
        return True
    if isinstance(wanted, int):
        return wanted == LATEST
    brokers = [numbers for found in wanted.values() for numbers in found.values()]
    return any(LATEST in numbers.values() for numbers in brokers)


def _fixed(given: Mapping[str, str], options: Options, kept: dict[str, Any]) -> dict[str, str]:
    """Return options that start where `kept` says."""
    if not options.name_server:
        others = {name: text for name, text in given.items() if name != "startingoffsets"}
        return others | {"startingphysicaloffset": str(kept["phys"])}
    others = {name: text for name, text in given.items() if name not in _TIMES}
    assigned = options.assigned
    # A query may have been given other topics since; then it says itself where these start.
    wanted = {
        queue: offset
        for queue, offset in offsets.decode({"v": offsets.VERSION, **kept}).items()
        if options.names_topic(queue.topic)
        and (assigned is None or queue.queue_id in assigned[queue.topic].get(queue.broker_name, ()))
    }
    return others | {"startingoffsets": json.dumps(offsets.encode(wanted)["queues"])}


def _kept(spark: Any, checkpoint: str, options: Options) -> dict[str, Any]:
    """Return the start that the checkpoint has, after determining it if it has none.

    Spark reads and writes it, as it alone can reach every place that a checkpoint may be at.

    Raises:
        DataLost: It is of another release.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql.functions import lit

    place = f"{checkpoint.rstrip('/')}/{KEPT}"
    try:
        lines = [row.value for row in spark.read.text(place).collect()]
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        lines = []
    if lines:  # a folder without any line was left behind by a failure, before anything was read
        kept: dict[str, Any] = json.loads(lines[0])
        wanted = "queues" if options.name_server else "phys"
        if kept.get("v") != _VERSION or wanted not in kept:
            raise DataLost(f"{place} has {lines[0]}: it belongs to another release or source")
        return {wanted: kept[wanted]}
    kept = _determined(options)
    line = json.dumps({"v": _VERSION, **kept})
    frame = spark.range(1).select(lit(line).alias("value")).coalesce(1)
    frame.write.mode("overwrite").text(place)
    return kept


def _determined(options: Options) -> dict[str, Any]:
    """Return where the options say that a query which starts now begins."""
    if not options.name_server:
        files = open_files(options.path, dict(options.file_system))
        return {"phys": starting_place(GrowingLog(files, options.path), options)}
    with closing(open_live(options)) as live:
        found = chosen.new_queues(live, options)
        return {"queues": offsets.encode(chosen.starting(live, options, found))["queues"]}
