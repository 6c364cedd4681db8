"""Requests about the set that a broker is in: 1001, 1002, 1005, 1006, and 1007 about its log.

All but the last are those that RocketMQ's controllers answer. Here any member does, as it asks the
decider: `mqadmin getSyncStateSet` and `electMaster` are given the address of a broker as the
controller's.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import (
    InSyncSet,
    LogEpoch,
    LogEpochs,
    SetMemberView,
    SetReplica,
    SetReplicas,
    SetReplicasTable,
)
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.headers import (
    WHATEVER_IT_LACKS,
    AlterInSync,
    ControllerAnswer,
    ElectMaster,
    ElectMasterAnswer,
    NoFields,
)
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.failover import Member, MemberId, SetMember, SetStatus
from sprocket.rocketmq.model.epochs import Epoch
from sprocket.rocketmq.server.dispatch import Answer, Request, Row, row
from sprocket.rocketmq.store.epoch_file import EpochFile
from sprocket.rocketmq.store.store import Store

_NO_END = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class SetHandlers:
    """A member's view of its set, and what operators have it do."""

    _member: SetMember
    _broker: str
    """Name of the broker."""
    _address: str
    """Of this one."""
    _in_sync_min: int
    """Of a set that is begun here."""
    _notice: Callable[[], str] | None = None
    """What other members are told, where an operator decides; None where something else does."""

    def rows(self) -> list[Row]:
        """Return the table."""
        return [
            row(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, AlterInSync, self.begin),
            row(RequestCode.CONTROLLER_ELECT_MASTER, ElectMaster, self.elect),
            row(RequestCode.CONTROLLER_GET_METADATA_INFO, NoFields, self.controller),
            row(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, NoFields, self.show),
        ]

    def begin(self, request: Request, header: AlterInSync) -> None:
        """Begin the set: say who is in sync at first. Later the master alone does that.

        With `WHATEVER_IT_LACKS` for an epoch this very member is to be the only one, although the
        set has begun and it may lack something that was acknowledged.
        """
        self._check_name(header.broker_name)
        ids = [MemberId(one) for one in bodies.decode(InSyncSet, request.body).members]
        if header.master_epoch == WHATEVER_IT_LACKS:
            me = self._member.status().member.id
            if ids != [me]:
                why = f"this is member {me}: ask the one you mean"
                raise Refused(Refusal.INVALID_ARGUMENT, why)
            self._member.designate(_answering(request))
        else:
            self._member.begin_set(ids, self._in_sync_min, _answering(request))

    def elect(self, _: Request, header: ElectMaster) -> Answer:
        """Hand over, to the member that is named or to any that is in sync."""
        self._check_name(header.broker_name)
        known = self._member.status()
        wanted, state = header.broker_id, known.state
        others = () if state is None else [one.id for one in state.in_sync - {known.member}]
        if wanted is not None and wanted not in others:
            raise Refused(Refusal.OTHER, f"member {wanted} is not a slave that is in sync")
        why = self._member.hand_over()
        if why:
            raise Refused(Refusal.OTHER, why)
        return Answer(
            header=ElectMasterAnswer(
                master_broker_id=known.member.id,
                master_address=self._address,
                master_epoch=known.epoch,
                sync_state_set_epoch=0,
            )
        )

    def controller(self, _: Request, _header: NoFields) -> Answer:
        """Answer that this member knows."""
        return Answer(
            header=ControllerAnswer(
                group=self._broker,
                controller_leader_id=str(self._member.status().member.id),
                controller_leader_address=self._address,
                is_leader=True,
                peers=self._address,
            )
        )

    def show(self, _: Request, _header: NoFields) -> Answer:
        """Answer who is in the set; its own set, whichever is asked for."""
        table = SetReplicasTable(sets={self._broker: self._replicas(self._member.status())})
        return Answer(body=(bodies.encode(table),))

    def _replicas(self, known: SetStatus) -> SetReplicas:
        state, leader, switched = known.state, known.leader, known.switched
        in_sync = frozenset[Member]() if state is None else state.in_sync
        others = {one.member for one in known.reports.values()} - in_sync
        return SetReplicas(
            master_broker_id=None if leader is None else leader.member.id,
            master_address=None if leader is None else leader.addresses.broker,
            master_epoch=0 if state is None else state.epoch,
            in_sync=self._each(known, in_sync),
            others=self._each(known, others),
            answered_by=SetMemberView(
                broker_id=known.member.id,
                phase=known.phase.name,
                epoch=known.epoch,
                why=known.why,
                switched_at_ms=switched.at_ms,
                switched_epoch=switched.epoch,
                switched_why=switched.why,
                in_sync_min=0 if state is None else state.in_sync_min,
                has_begun=state is not None,
                notice="" if self._notice is None else self._notice(),
                is_by_operator=self._notice is not None,
            ),
        )

    def _each(self, known: SetStatus, members: Iterable[Member]) -> list[SetReplica]:
        found = []
        for one in sorted(members):
            report = known.reports.get(one.id)
            is_alive = report is not None and report.member == one
            found.append(
                SetReplica(
                    broker_name=self._broker,
                    broker_id=one.id,
                    broker_address=report.addresses.broker if report and is_alive else "",
                    is_alive=is_alive,
                    member=str(one),
                    epoch=report.epoch if report and is_alive else 0,
                    log_end=report.end if report and is_alive else 0,
                    is_joining=one in known.joining,
                )
            )
        return found

    def _check_name(self, name: str) -> None:
        if name != self._broker:
            raise Refused(Refusal.INVALID_ARGUMENT, f"this is a member of {self._broker}")


@dataclass(frozen=True, slots=True)
class EpochHandlers:
    """What the log of a member has of each epoch."""

    _cluster: str
    _broker: str
    _number: int
    """Of the member."""
    _epochs: EpochFile
    _store: Store

    def rows(self) -> list[Row]:
        """Return the table."""
        return [row(RequestCode.GET_BROKER_EPOCH_CACHE, NoFields, self.show)]

    def show(self, _: Request, _header: NoFields) -> Answer:
        """Answer where each epoch begins and ends; the last one has no end."""
        entries = [*self._epochs.epochs.entries, Epoch(0, _NO_END)]
        table = LogEpochs(
            cluster_name=self._cluster,
            broker_name=self._broker,
            broker_id=self._number,
            epochs=[
                LogEpoch(number=one.number, start=one.start, end=later.start)
                for one, later in pairwise(entries)
            ],
            log_end=self._store.written,
        )
        return Answer(body=(bodies.encode(table),))


def _answering(request: Request) -> Callable[[str], None]:
    """Return what answers a request, with why it was not done if that is told."""

    def answer(why: str) -> None:
        if why:
            request.fail(Refused(Refusal.OTHER, why))
        else:
            request.answer(Answer())

    return answer
