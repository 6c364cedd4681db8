"""Whatever a node lacks, it loses nothing, and works again when it has it: see `starvation`."""

import asyncio
import os
import statistics
from pathlib import Path

import pytest
from tests.anomaly import starvation


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("cause", starvation.CAUSES)
def test_nothing_is_lost_and_everybody_stores_again(cause: str, tmp_path: Path) -> None:
    """Prints what the others met meanwhile."""
    if cause == "no room on the disk" and os.geteuid():
        pytest.skip("only root can mount a small file system")
    starvation.allow_descriptors()
    with starvation.node_for(cause, tmp_path) as node:
        try:
            clients = asyncio.run(starvation.starve(node, cause))
        finally:
            code = node.stop()
    assert code == 0
    for product, seconds in clients.seconds.items():
        count = len(clients.acknowledged[product])
        p99 = statistics.quantiles(seconds, n=100)[98] * 1000 if len(seconds) > 1 else float("nan")
        print(
            f"  {cause}: {product}: {count:,} acknowledged, all there; while it lasted"
            f" {len(seconds):,}, p99 {p99:.0f} ms, {clients.refused[product]:,} refused"
        )
