"""The links of members over sockets: the same objects as of the classic way, with other frames."""

import asyncio
from collections.abc import Callable

from tests.broker_pair import until
from tests.members import LAYOUT, Member
from tests.replicas import AtOnce, assert_same
from tests.stores import ROOT

from sprocket.rocketmq.codec.switch_frames import SlaveHandshake, slave_handshake
from sprocket.rocketmq.model.epochs import Epoch
from sprocket.rocketmq.replication import (
    AcksByName,
    Done,
    EpochSpeech,
    MasterLink,
    MasterPlace,
    MemberLog,
    MustCut,
    Required,
    Slaves,
    TableVersions,
)
from sprocket.rocketmq.settings import ReplicationSettings
from sprocket.rocketmq.store.cutting import log_cut
from sprocket.rocketmq.store.epoch_file import EpochFile
from sprocket.rocketmq.store.log import StoredRecords
from sprocket.runtime import driver

SETTINGS = ReplicationSettings(role="sync_master")


def at_once(member: Member) -> Callable[[StoredRecords, Done], None]:
    """Return what stores records of another log in the same turn."""

    def append(stored: StoredRecords, done: Done) -> None:
        member.store.append_stored(stored)
        member.store.write()
        member.store.sync()
        asyncio.get_running_loop().call_soon(done, None)

    return append


def test_a_slave_follows_and_is_told_to_cut() -> None:
    """It gets all, reports it for the epoch, and is told where its own log is to be cut."""

    async def run() -> None:
        master, slave = Member(1), Member(2)
        slave.open_master(1)
        slave.add(100, 200)
        slave.open_slave()
        master.open_master(2)
        master.add(100, 700, 1500)
        loop = asyncio.get_running_loop()
        slaves = Slaves(
            master.store,
            AtOnce(),
            loop,
            master.clock,
            SETTINGS,
            EpochSpeech(master.store, master.epochs.epochs, lambda: slaves.confirmed, print),
            AcksByName(Required(replicas=frozenset([slave.replica_id]), members_in_sync=2)),
        )
        slaves.start(lambda: None)
        bound = await driver.bind("127.0.0.1", 0)
        server = await driver.listen(bound, EpochSpeech.reader, slaves.on_frame)
        told: list[MustCut] = []

        def link() -> MasterLink:
            return MasterLink(
                MemberLog(
                    slave.store,
                    at_once(slave),
                    slave.epochs,
                    slave.replica_id,
                    to_disk=True,
                    goes_on=told.append,
                    tables=TableVersions(),
                ),
                find,
                slave.clock,
                heartbeat_seconds=5,
                silence_seconds=20,
            )

        async def find() -> MasterPlace:
            return MasterPlace("127.0.0.1", bound.port)

        first = link()
        first.start()
        await until(lambda: bool(told))
        assert told == [MustCut(at=0, epoch=-1, master_epoch=2)]
        assert "is to be cut" in (first.why or "")
        await first.stop()
        slave.close()
        log_cut.cut(slave.disk, ROOT, told[0].at)
        slave.open_slave()
        second = link()
        second.start()
        await until(lambda: [one.acknowledged for one in slaves.all] == [master.store.written])
        assert second.why is None
        assert second.read_bytes == master.store.written
        assert_same(master.store, slave.store)
        assert slaves.confirmed == master.store.written
        stranger = await driver.connect(
            EpochSpeech.reader, lambda *_: None, "127.0.0.1", bound.port
        )
        stranger.send([slave_handshake(SlaveHandshake(broker_id=3))])
        await until(lambda: not stranger.is_open)
        await second.stop()
        slaves.stop()
        await server.close()
        assert EpochFile(slave.disk, LAYOUT).epochs.entries == (Epoch(2, 0),)

    asyncio.run(run())


def test_a_master_that_is_not_a_member_is_told_apart() -> None:
    """One of RocketMQ's ends the link at a state that it does not know."""

    async def run() -> None:
        slave = Member(2)
        bound = await driver.bind("127.0.0.1", 0)
        server = await driver.listen(bound, EpochSpeech.reader, lambda peer, _: peer.close())

        async def find() -> MasterPlace:
            return MasterPlace("127.0.0.1", bound.port)

        link = MasterLink(slave.log, find, slave.clock, heartbeat_seconds=5, silence_seconds=20)
        link.start()
        await until(lambda: link.why != "the master was not reached yet")
        assert "as a RocketMQ is not" in (link.why or "")
        await link.stop()
        await server.close()

    asyncio.run(run())
