"""The data source `rabbitmq`: folders of virtual hosts as a DataFrame, a row for each message.

`source` is what Spark calls, `plan` divides queues among tasks, `stored_terms` fetches the messages
of some rows of an index, and `columns` makes Arrow arrays of them, `batches` whole batches.
"""

from sprocket.spark.rabbitmq.plan import require_queues
from sprocket.spark.rabbitmq.source import RabbitMQSource

__all__ = ["RabbitMQSource", "require_queues"]
