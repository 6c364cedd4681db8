"""From where on the log may have copies of the messages of a slot."""

from collections import deque

from sprocket.rocketmq.store.store import Store


class FirstCopies:
    """Up to where the disk had the log before anything of a slot, or a later one, was delivered.

    Args:
        store: The open store.
        slot: The first one of which something may not be delivered.
        place: The same of it.
    """

    def __init__(self, store: Store, slot: int, place: int) -> None:
        self._store = store
        self._noted = deque([(slot, place)])

    def note(self, slot: int) -> None:
        """Note that nothing of a slot was delivered yet."""
        self._noted.append((slot, self._store.synced))

    def of(self, slot: int) -> int:
        """Return the place for a slot; slots before it are not asked for again."""
        while len(self._noted) > 1 and self._noted[1][0] <= slot:
            self._noted.popleft()
        return self._noted[0][1]
