"""An archive as a DataFrame, wherever it lies.

Spark reads Parquet of the local disk by itself. To read it elsewhere it needs jars for each file
system, and settings of their own. So there the workers read the files, by Arrow, as they read a
store's.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sprocket.base.units import MIB
from sprocket.spark.archive.archive_folder import archive_files
from sprocket.spark.files import local_path, open_remote
from sprocket.spark.worker_tasks import spread

BATCH_BYTES = 16 * MIB
"""Of a batch, unpacked; Arrow counts the bytes of a column by 31 bits."""
BATCH_ROWS_MAX = 8192


def read_archive(
    spark: Any,
    folder: str,
    topics: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
) -> Any:
    """Return an archive as a DataFrame with the columns of the store that it was made of.

    The parameters and errors are those of `archive_files`.
    """
    from pyspark.sql import functions as F

    from sprocket.spark.rocketmq import columns_of_view

    paths = archive_files(folder, topics, settings)
    schema = columns_of_view("full")
    if not paths:
        return spark.createDataFrame([], schema)
    if local_path(folder) is None:
        work = partial(_rows, folder.rstrip("/"), dict(settings or {}), tuple(topics))
        return spread(spark, paths, work, schema)
    rows = spark.read.schema(schema).parquet(*paths)
    return rows.where(F.col("topic").isin(*topics)) if topics else rows


def _rows(
    folder: str, settings: Mapping[str, str], topics: Sequence[str], path: str
) -> Iterator[Any]:
    """Give the Arrow batches of one file; runs in a worker."""
    names = pa.array(topics, pa.string())
    with open_remote(folder, settings).input(path) as source:
        file = pq.ParquetFile(source, pre_buffer=True)
        for number in range(file.num_row_groups):
            group = file.metadata.row_group(number)
            each = max(group.total_byte_size // max(group.num_rows, 1), 1)
            size = max(min(BATCH_BYTES // each, BATCH_ROWS_MAX), 1)
            for batch in file.iter_batches(size, row_groups=[number]):
                yield batch.filter(pc.is_in(batch.column("topic"), names)) if topics else batch
