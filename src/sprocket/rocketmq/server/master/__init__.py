"""A broker as a slave: what it asks its master by remoting, and what it does not do itself.

And what a master does not do without slaves.
"""

from sprocket.rocketmq.server.master.places import MasterPlaces
from sprocket.rocketmq.server.master.refusals import of_master, of_slave
from sprocket.rocketmq.server.master.tables import ROUND_SECONDS, MasterTables, TellingTables

__all__ = [
    "ROUND_SECONDS",
    "MasterPlaces",
    "MasterTables",
    "TellingTables",
    "of_master",
    "of_slave",
]
