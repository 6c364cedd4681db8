"""The data source `rocketmq`: a store's folder as a DataFrame, topics as streams.

`source` is what Spark calls; `folder` reads stores, `live` topics over the wire, `rows` turns what
they read into Arrow batches, `sink` writes to topics. What a query does not need is not imported
for it, so `folder` has a face of its own.
"""

from sprocket.spark.rocketmq.options import read_sink
from sprocket.spark.rocketmq.rows.batches import columns_of_view
from sprocket.spark.rocketmq.source import RocketMQSource
from sprocket.spark.rocketmq.traces import traces
from sprocket.spark.rocketmq.transactions import transactions

__all__ = [
    "RocketMQSource",
    "columns_of_view",
    "read_sink",
    "traces",
    "transactions",
]
