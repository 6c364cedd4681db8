"""Plans a store's folder once and says what that took: `python -m bench.spark_plan FOLDER`."""

import json
import resource
import sys
import time

from sprocket.base.disk import RealDisk
from sprocket.base.units import KIB
from sprocket.spark.rocketmq.folder.plan import plan


def main() -> int:
    """Plan, and print seconds, memory, tasks and where the last one ends as JSON."""
    began = time.perf_counter()
    groups = plan(RealDisk(), sys.argv[1])
    took = time.perf_counter() - began
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB
    end = groups[-1][-1].end
    print(json.dumps({"seconds": took, "mib": mib, "tasks": len(groups), "records_end": end}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
