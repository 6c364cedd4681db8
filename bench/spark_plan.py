"""Plans a query once and says what that took: `python -m bench.spark_plan NAME=VALUE…`.

The words are options of the format `rocketmq`. What is timed is what Spark's planner process does:
from the reader to the list of tasks.
"""

import json
import resource
import sys
import time

from sprocket.base.units import KIB
from sprocket.spark.rocketmq import RocketMQSource
from sprocket.spark.rocketmq.options import is_live, read_directory, read_live_batch
from sprocket.spark.rocketmq.rows.batches import schema_of


def main() -> int:
    """Plan, and print seconds, memory and tasks as JSON.

    Of a cluster also how much all tasks have to read, of a folder where the last one ends.
    """
    options = dict(word.split("=", 1) for word in sys.argv[1:])
    read = read_live_batch if is_live(options) else read_directory
    reader = RocketMQSource(options).reader(schema_of(read(options), {}))
    began = time.perf_counter()
    parts = reader.partitions()
    took = time.perf_counter() - began
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB
    found = {"seconds": took, "mib": mib, "tasks": len(parts)}
    if is_live(options):
        found["queues"] = sum(len(part.value) for part in parts)
    else:
        found["records_end"] = parts[-1].value[-1].end
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
