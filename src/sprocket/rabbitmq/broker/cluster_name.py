"""What the cluster is called, which administrators change while it runs.

Source: `rabbit_nodes:cluster_name`, which keeps it as a global parameter, too.
"""

from typing import Final

from sprocket.rabbitmq.broker.refusals import precondition_failed
from sprocket.rabbitmq.model.policy import GlobalParameter
from sprocket.rabbitmq.store.metadata_table import MetadataTable

PARAMETER: Final = "cluster_name"
CHARACTERS_MAX: Final = 127
"""Clients get it in the first frame of a connection, which is to be small."""


class ClusterName:
    """See the head of the module.

    Args:
        table: Where it is kept once it was changed.
        first: What it is until then.

    Threads: event loop only.
    """

    def __init__(self, table: MetadataTable, first: str) -> None:
        self._table = table
        self._first = first

    def __str__(self) -> str:
        """Return it; O(1)."""
        found = self._table.global_parameter(PARAMETER)
        return self._first if found is None or not is_usable(found) else str(found.value)


def is_usable(given: GlobalParameter) -> bool:
    """Whether a parameter is not the name of a cluster, or is one that clients can be sent."""
    value = given.value
    return given.name != PARAMETER or (isinstance(value, str) and len(value) <= CHARACTERS_MAX)


def check(given: GlobalParameter) -> None:
    """Refuse a name of the cluster that clients cannot be sent. Raises RequestRefused."""
    if not is_usable(given):
        raise precondition_failed(
            f"{PARAMETER} must be a text of {CHARACTERS_MAX} characters at most"
        )
