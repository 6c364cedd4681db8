"""How the values of a set are written for a decider: JSON texts, for machines and for people."""

from typing import TypeVar

import msgspec
from msgspec import Struct

from sprocket.base.errors import WireError
from sprocket.rocketmq.failover.values import (
    Leader,
    MemberAddresses,
    MemberReport,
    SetState,
    member_of,
)

D = TypeVar("D", bound=Struct)


class _LeaderDocument(Struct):
    member: str
    broker: str
    slaves: str
    epoch: int
    attempt: str


class _StateDocument(Struct):
    epoch: int
    master: str | None
    isr: list[str]
    min: int


class _ReportDocument(Struct):
    member: str
    broker: str
    slaves: str
    epoch: int
    end: int


def encode_leader(leader: Leader) -> bytes:
    """Return the document of a leader."""
    document = _LeaderDocument(
        str(leader.member),
        leader.addresses.broker,
        leader.addresses.slaves,
        leader.epoch,
        leader.attempt,
    )
    return msgspec.json.encode(document)


def decode_leader(text: bytes) -> Leader:
    """Return the leader that a document names. Raises WireError."""
    found = _decode(text, _LeaderDocument)
    return Leader(
        member=member_of(found.member),
        addresses=MemberAddresses(broker=found.broker, slaves=found.slaves),
        epoch=found.epoch,
        attempt=found.attempt,
    )


def encode_state(state: SetState) -> bytes:
    """Return the document of a state."""
    document = _StateDocument(
        state.epoch,
        None if state.master is None else str(state.master),
        sorted(map(str, state.in_sync)),
        state.in_sync_min,
    )
    return msgspec.json.encode(document)


def decode_state(text: bytes) -> SetState:
    """Return the state that a document gives. Raises WireError."""
    found = _decode(text, _StateDocument)
    return SetState(
        epoch=found.epoch,
        master=None if found.master is None else member_of(found.master),
        in_sync=frozenset(map(member_of, found.isr)),
        in_sync_min=found.min,
    )


def encode_report(report: MemberReport) -> bytes:
    """Return the document of what a member says."""
    document = _ReportDocument(
        str(report.member),
        report.addresses.broker,
        report.addresses.slaves,
        report.epoch,
        report.end,
    )
    return msgspec.json.encode(document)


def decode_report(text: bytes) -> MemberReport:
    """Return what a member says in a document. Raises WireError."""
    found = _decode(text, _ReportDocument)
    return MemberReport(
        member=member_of(found.member),
        addresses=MemberAddresses(broker=found.broker, slaves=found.slaves),
        epoch=found.epoch,
        end=found.end,
    )


def _decode(text: bytes, kind: type[D]) -> D:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError as error:
        raise WireError(f"expected what Sprocket writes, found {text[:80]!r}: {error}") from error
