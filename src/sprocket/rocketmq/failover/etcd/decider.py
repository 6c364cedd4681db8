"""The decider's calls as requests to etcd, see `failover.decider` and the room's head."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final

from sprocket.base import log
from sprocket.base.errors import ClientError, NotConnected, WireError
from sprocket.rocketmq.failover.decider import Alter, Renew, Ruling, Take, Verdict
from sprocket.rocketmq.failover.documents import (
    decode_leader,
    decode_report,
    decode_state,
    encode_leader,
    encode_report,
    encode_state,
)
from sprocket.rocketmq.failover.etcd import messages
from sprocket.rocketmq.failover.etcd.client import EtcdClient, EtcdRefused
from sprocket.rocketmq.failover.etcd.messages import StoredKey
from sprocket.rocketmq.failover.values import MemberId, MemberReport, SetState, SetView, Tenure

REPORT_TTL_SECONDS: Final = 15
"""How long it is known what a member has said of itself."""
QUIET_SECONDS: Final = 2.0
"""A watch that has said nothing for so long is compared with what holds."""
RETRY_SECONDS: Final = 0.3
"""After which a watch is begun anew."""

_log = log.get_logger(__name__)

_LOST = Ruling(verdict=Verdict.LOST, why="the condition does not hold")


class EtcdDecider:
    """See the head of the module; a `failover.Decider`.

    Args:
        client: Etcd.
        cluster: Name of the brokers' cluster.
        set_name: Name of the set in it.
        ttl_seconds: How long a lease lives that is not renewed.

    Threads: event loop only.
    """

    def __init__(self, client: EtcdClient, cluster: str, set_name: str, ttl_seconds: int) -> None:
        self._client = client
        self._prefix = f"/sprocket/{cluster}/{set_name}/".encode()
        self._leader = self._prefix + b"leader"
        self._state = self._prefix + b"state"
        self._ttl_seconds = ttl_seconds
        self._report_lease = 0
        self._reports = 0

    async def take(self, call: Take) -> Ruling:
        """See `Decider`; the lease is new."""
        try:
            lease = await self._grant(self._ttl_seconds)
        except (ClientError, WireError) as error:
            return Ruling(verdict=Verdict.UNKNOWN, why=str(error))
        ruling = await self._written(
            [_absent(self._leader), _unchanged(self._state, call.seen_revision)],
            [
                _put(self._leader, encode_leader(call.leader), lease),
                _put(self._state, encode_state(call.state)),
            ],
        )
        if ruling.verdict is not Verdict.DONE:
            return ruling
        revision = ruling.state_revision
        tenure = Tenure(revision=revision, lease=lease)
        return Ruling(verdict=Verdict.DONE, tenure=tenure, state_revision=revision)

    async def renew(self, call: Renew) -> Ruling:
        """See `Decider`."""
        try:
            return await self._keep_alive(call.tenure.lease)
        except EtcdRefused as error:
            verdict = Verdict.LOST if error.code == messages.NOT_FOUND else Verdict.UNKNOWN
            return Ruling(verdict=verdict, why=str(error))
        except (ClientError, WireError) as error:
            return Ruling(verdict=Verdict.UNKNOWN, why=str(error))

    async def alter(self, call: Alter) -> Ruling:
        """See `Decider`."""
        conditions = [
            _is(self._leader, encode_leader(call.leader)),
            _created(self._leader, call.tenure.revision),
            _unchanged(self._state, call.seen_revision),
        ]
        if call.state is None:
            return await self._written(conditions, [_delete(self._leader)])
        return await self._written(conditions, [_put(self._state, encode_state(call.state))])

    async def init(self, state: SetState, *, seen_revision: int = 0) -> Ruling:
        """See `Decider`."""
        conditions = [_absent(self._leader), _unchanged(self._state, seen_revision)]
        return await self._written(conditions, [_put(self._state, encode_state(state))])

    async def read(self) -> SetView | None:
        """See `Decider`."""
        try:
            return _Keys.of(self._prefix, await self._range()).view()
        except (ClientError, WireError) as error:
            _log.debug("etcd cannot be read", why=str(error))
            return None

    async def watch(self) -> AsyncGenerator[SetView, None]:
        """See `Decider`."""
        why = ""
        while True:
            try:
                keys = _Keys.of(self._prefix, await self._range())
                why = ""
                yield keys.view()
                async with aclosing(self._changes(keys)) as changes:
                    async for view in changes:
                        yield view
            except (ClientError, WireError) as error:
                if str(error) != why:
                    why = str(error)
                    _log.info("etcd is watched anew", why=why)
            await asyncio.sleep(RETRY_SECONDS)

    async def report(self, report: MemberReport) -> bool:
        """See `Decider`."""
        key = self._prefix + b"member/%d" % report.member.id
        try:
            if not self._report_lease:
                self._report_lease = await self._grant(REPORT_TTL_SECONDS)
            elif (await self._keep_alive(self._report_lease)).verdict is not Verdict.DONE:
                self._report_lease = 0
                return False
            put = _put(key, encode_report(report), self._report_lease)
            ruling = await self._written([], [put])
        except (ClientError, WireError) as error:
            _log.debug("what this member says is not written", why=str(error))
            return False
        if ruling.verdict is Verdict.LOST:
            self._report_lease = 0
        return ruling.verdict is Verdict.DONE

    async def close(self) -> None:
        """See `Decider`."""
        self._client.close()

    async def _grant(self, seconds: int) -> int:
        """Return a new lease. Raises ClientError, WireError."""
        answer = await self._client.ask(
            "/v3/lease/grant", {"TTL": str(seconds)}, messages.LeaseAnswer
        )
        lease = _number(answer.ID)
        if not lease:
            raise WireError("etcd grants a lease without a number")
        return lease

    async def _keep_alive(self, lease: int) -> Ruling:
        """Let a lease live for its whole time again. Raises ClientError, WireError."""
        answer = await self._client.ask(
            "/v3/lease/keepalive", {"ID": str(lease)}, messages.KeptAlive
        )
        if answer.result is None or _number(answer.result.ID) != lease:
            why = "nothing" if answer.error is None else answer.error.message
            raise WireError(f"etcd says of a lease: {why}")
        if _number(answer.result.TTL) > 0:
            return Ruling(verdict=Verdict.DONE)
        return Ruling(verdict=Verdict.LOST, why="etcd does not know the lease")

    async def _written(
        self, conditions: list[Mapping[str, object]], requests: list[Mapping[str, object]]
    ) -> Ruling:
        """Do something if all conditions hold."""
        body = {"compare": conditions, "success": requests}
        try:
            answer = await self._client.ask("/v3/kv/txn", body, messages.TxnAnswer)
        except NotConnected as error:
            # Nothing was sent; but whoever asked is to look again all the same.
            return Ruling(verdict=Verdict.UNKNOWN, why=str(error))
        except EtcdRefused as error:
            verdict = Verdict.LOST if error.code == messages.NOT_FOUND else Verdict.UNKNOWN
            return Ruling(verdict=verdict, why=str(error))
        except (ClientError, WireError) as error:
            return Ruling(verdict=Verdict.UNKNOWN, why=str(error))
        if not answer.succeeded:
            return _LOST
        return Ruling(verdict=Verdict.DONE, state_revision=_number(answer.header.revision))

    async def _range(self) -> messages.RangeAnswer:
        """Return all keys of the set, as they are after every answer before. Raises as `ask`."""
        body = {
            "key": messages.text(self._prefix),
            "range_end": messages.text(messages.end_of(self._prefix)),
        }
        return await self._client.ask("/v3/kv/range", body, messages.RangeAnswer)

    async def _changes(self, keys: "_Keys") -> AsyncGenerator[SetView, None]:
        """Give views of what changes after some keys were read, until the watch is cut off."""
        create = {
            "key": messages.text(self._prefix),
            "range_end": messages.text(messages.end_of(self._prefix)),
            "start_revision": str(keys.revision + 1),
        }
        stream = self._client.stream(
            "/v3/watch", {"create_request": create}, messages.WatchMessage, QUIET_SECONDS
        )
        async with aclosing(stream) as coming:
            async for message in coming:
                if message is None:
                    await self._compare(keys)
                elif keys.take(message):
                    yield keys.view()

    async def _compare(self, keys: "_Keys") -> None:
        """See whether a watch that is quiet has missed anything. Raises NotConnected if so."""
        now = _Keys.of(self._prefix, await self._range())
        if not now.is_like(keys):
            self._client.next_member("a watch has missed something")
            raise NotConnected("a watch has missed something")


class _Keys:
    """All keys of a set at one moment.

    Args:
        prefix: What their names begin with.
        decider_id: Of the cluster of etcd.
        revision: The moment.
    """

    def __init__(self, prefix: bytes, decider_id: str, revision: int) -> None:
        self.revision = revision
        self._prefix = prefix
        self._decider_id = decider_id
        self._values: dict[str, StoredKey] = {}

    @classmethod
    def of(cls, prefix: bytes, answer: messages.RangeAnswer) -> "_Keys":
        """Return what was read. Raises WireError."""
        header = answer.header
        keys = cls(prefix, header.cluster_id, _number(header.revision))
        for one in answer.kvs:
            keys._values[keys._name(one)] = one
        return keys

    def take(self, message: messages.WatchMessage) -> bool:
        """Take what a watch says; return whether anything has changed.

        Raises:
            NotConnected: The watch has ended, as what follows was dropped, or for another reason.
        """
        found = message.result
        if message.error is not None or found is None:
            raise NotConnected("etcd has ended the watch")
        if found.canceled:
            why = found.cancel_reason or f"compacted up to {found.compact_revision}"
            raise NotConnected(f"etcd has ended the watch: {why}")
        self.revision = max(self.revision, _number(found.header.revision))
        for event in found.events:
            name = self._name(event.kv)
            if event.type == "DELETE":
                self._values.pop(name, None)
            else:
                self._values[name] = event.kv
        return bool(found.events)

    def is_like(self, other: "_Keys") -> bool:
        """Say whether leader and state are the same."""
        return self._decider_id == other._decider_id and all(
            self._values.get(name) == other._values.get(name) for name in ("leader", "state")
        )

    def view(self) -> SetView:
        """Return what they say. Raises WireError."""
        leader, state = self._values.get("leader"), self._values.get("state")
        tenure = None
        if leader is not None:
            revision = _number(leader.create_revision)
            tenure = Tenure(revision=revision, lease=_number(leader.lease))
        reports: dict[MemberId, MemberReport] = {}
        for name, one in self._values.items():
            if name.startswith("member/"):
                report = decode_report(_octets(one.value))
                reports[report.member.id] = report
        return SetView(
            decider_id=self._decider_id,
            revision=self.revision,
            leader=None if leader is None else decode_leader(_octets(leader.value)),
            tenure=tenure,
            state=None if state is None else decode_state(_octets(state.value)),
            state_revision=0 if state is None else _number(state.mod_revision),
            reports=reports,
        )

    def _name(self, one: StoredKey) -> str:
        return _octets(one.key).removeprefix(self._prefix).decode("utf-8", "replace")


def _number(written: str) -> int:
    """Return a number that was written as a text. Raises WireError."""
    try:
        return int(written)
    except ValueError:
        raise WireError(f"expected a number of etcd, found {written[:40]!r}") from None


def _octets(written: str) -> bytes:
    """Return octets that were written. Raises WireError."""
    try:
        return messages.octets(written)
    except ValueError:
        raise WireError(f"expected base64 of etcd, found {written[:40]!r}") from None


def _absent(key: bytes) -> Mapping[str, object]:
    return _created(key, 0)


def _created(key: bytes, revision: int) -> Mapping[str, object]:
    """Return the condition that a key was made at a revision; 0 is that there is none."""
    return {"key": messages.text(key), "target": "CREATE", "create_revision": str(revision)}


def _unchanged(key: bytes, revision: int) -> Mapping[str, object]:
    """Return the condition that a key was written last at a revision; 0 is that there is none."""
    return {"key": messages.text(key), "target": "MOD", "mod_revision": str(revision)}


def _is(key: bytes, value: bytes) -> Mapping[str, object]:
    return {"key": messages.text(key), "target": "VALUE", "value": messages.text(value)}


def _put(key: bytes, value: bytes, lease: int = 0) -> Mapping[str, object]:
    put = {"key": messages.text(key), "value": messages.text(value), "lease": str(lease)}
    return {"request_put": put}


def _delete(key: bytes) -> Mapping[str, object]:
    return {"request_delete_range": {"key": messages.text(key)}}
