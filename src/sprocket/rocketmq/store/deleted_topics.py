"""The table of deleted topics in a folder: which records get no queue unit any more.

`recovery.deletions` keeps it and says what it is for; here it is read, for those, too, who make
queues without opening the store.
"""

import msgspec

from sprocket.base.disk import Disk, read_file
from sprocket.base.errors import FileMissing, ForeignStore
from sprocket.rocketmq.store.layout import StoreLayout


class DeletedTopics(msgspec.Struct):
    """What the table says.

    Attributes:
        ends: Where the log ended when a topic was deleted, by the topic.
        pending: Topics whose deletion is not finished.
    """

    ends: dict[str, int] = {}
    pending: list[str] = []


def read(disk: Disk, layout: StoreLayout) -> DeletedTopics:
    """Return the table; an empty one if there is none.

    Raises:
        ForeignStore: It cannot be read, and deleted topics would come back.
    """
    path = layout.deleted_topics
    try:
        return msgspec.json.decode(read_file(disk, path), type=DeletedTopics)
    except FileMissing:
        return DeletedTopics({}, [])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ForeignStore(
            f"{path} cannot be read ({error}): without it deleted topics come back; "
            "remove it if that may be"
        ) from error
