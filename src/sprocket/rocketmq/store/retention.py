"""What may be deleted of a log, and when: by age at certain hours, by fullness of the disk at once.

Whole files are deleted, oldest first, never the newest. A file is expired when nothing was written
to it for `keep_hours`, and for as long as any topic wants that has a message in it. Expired files
are deleted in the hours of `clean_hours`, and at any time while the disk is fuller than
`clean_percent`. Above `force_percent` files are deleted that are not expired, one after the other
until the disk is below it again. Above `refuse_percent` appends are refused too, until the disk is
down at `force_percent`. Queues and index follow the log: what points before its beginning is
deleted with it. No topic is kept for a shorter time than the files that it shares.

Invariants

1. Nothing is deleted that is not durable and in the queues, durably: a queue whose messages are
   gone must still know where it goes on.
2. No crash leaves a gap: each deletion is on the disk before the next one.

Source: RocketMQ `DefaultMessageStore.CleanCommitLogService`, `CleanConsumeQueueService`. Unlike
those a forced round deletes no more files than it takes to be below the limit.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from sprocket.base.clock import Clock
from sprocket.base.disk import Disk, Segment, Steps
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.settings import RetentionSettings
from sprocket.rocketmq.store.log import Appender
from sprocket.rocketmq.store.recovery import StoreParts

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class SpaceLimits:
    """Percents of the disk's space, each inside the range that RocketMQ allows."""

    clean: int
    force: int
    refuse: int

    @classmethod
    def of(cls, settings: RetentionSettings) -> "SpaceLimits":
        """Return the limits of some settings; what lies outside of its range is moved into it."""
        return cls(
            clean=min(max(settings.clean_percent, 10), 95),
            force=min(max(settings.force_percent, 30), 85),
            refuse=min(max(settings.refuse_percent, 35), 90),
        )

    def told(self, settings: RetentionSettings) -> list[str]:
        """Return what people who made some settings may not expect of these limits."""
        given = {
            "clean_percent": (settings.clean_percent, self.clean),
            "force_percent": (settings.force_percent, self.force),
            "refuse_percent": (settings.refuse_percent, self.refuse),
        }
        said = [
            f"retention.{name} is {used}, which is as near to {wanted} as it may be"
            for name, (wanted, used) in given.items()
            if wanted != used
        ]
        if settings.force and self.clean > self.force:
            said.append(
                f"retention.clean_percent ({self.clean}) is above force_percent ({self.force}): "
                "files that are not expired are deleted before expired ones are looked for"
            )
        if settings.force and self.force >= self.refuse:
            said.append(
                f"retention.force_percent ({self.force}) is not below refuse_percent "
                f"({self.refuse}): messages are refused before room is made for them"
            )
        return said


def used_percent(disk: Disk, *folders: str) -> int:
    """Return how full the fullest of the folders' file systems is, rounded up."""
    # Six digits are more than any disk's ratio means; 0.9 is 90, not 91.
    return max(math.ceil(round(100 * disk.used_ratio(folder), 6)) for folder in folders)


def local_hour(at_ms: int) -> int:
    """Return the hour of the day, 0 to 23, on the machine's clock."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().hour


class Retention:
    """Deletes what need not be kept.

    Args:
        parts: The store's.
        appender: Is paused while the disk is too full.
        clock: For ages and hours.
        safe_end: Says up to where log and queues are durable.
    """

    def __init__(
        self, parts: StoreParts, appender: Appender, clock: Clock, safe_end: Callable[[], int]
    ) -> None:
        self._parts = parts
        self._appender = appender
        self._clock = clock
        self._safe_end = safe_end
        self._followed = 0

    def clean_steps(
        self, settings: RetentionSettings, reserve_hours: Mapping[str, int], *, at_once: bool
    ) -> Steps:
        """Do one round; see `Store.clean_steps`."""
        limits = SpaceLimits.of(settings)
        used = yield self._used_percent
        self._heed(used, limits)
        force = settings.force and used > limits.force
        is_hour = local_hour(self._clock.now_ms()) in settings.clean_hours
        if force or is_hour or at_once or used > limits.clean:
            yield from self._log_steps(settings, reserve_hours, limits.force if force else None)
            self._heed((yield self._used_percent), limits)
        first = self._parts.files.first
        if first > self._followed:
            yield from self._parts.queues.clean_steps(PhysicalOffset(first))
            if self._parts.index is not None:
                yield from self._parts.index.clean_steps(PhysicalOffset(first))
            self._followed = first

    def heed_space(self, settings: RetentionSettings) -> None:
        """Refuse appends if the disk is too full; see `Store.heed_space`."""
        self._heed(self._used_percent(), SpaceLimits.of(settings))

    def _used_percent(self) -> int:
        layout = self._parts.layout
        return used_percent(self._parts.disk, layout.commitlog, layout.consumequeue)

    def _heed(self, used: int, limits: SpaceLimits) -> None:
        """Refuse appends on a disk that is too full, take them again once it is well below."""
        if used > limits.refuse:
            self._appender.pause(f"the disk is {used} % full, more than {limits.refuse} %")
        elif used <= limits.force:
            self._appender.resume()

    def _log_steps(
        self,
        settings: RetentionSettings,
        reserve_hours: Mapping[str, int],
        force_above: int | None,
    ) -> Steps:
        """Delete log files; above `force_above` percent also those that are not expired."""
        files, disk = self._parts.files, self._parts.disk
        for _ in range(settings.round_files_max):
            oldest = self._oldest()
            if oldest is None:
                return
            if force_above is not None and (yield self._used_percent) <= force_above:
                force_above = None
            if force_above is None:
                modified_at_ms = yield partial(disk.modified_at_ms, oldest.path)
                age_ms = self._clock.now_ms() - modified_at_ms
                if age_ms < settings.keep_hours * _HOUR_MS:
                    return
                longer = {t for t, hours in reserve_hours.items() if age_ms < hours * _HOUR_MS}
                start, end = PhysicalOffset(oldest.start), PhysicalOffset(oldest.end)
                for has_message in self._parts.queues.between(longer, start, end):
                    if (yield has_message):
                        return
            yield from files.drop_before_steps(oldest.end)

    def _oldest(self) -> Segment | None:
        """Return the file that may go next."""
        segments = self._parts.files.segments
        if len(segments) > 1 and segments[0].end <= self._safe_end():
            return segments[0]
        return None
