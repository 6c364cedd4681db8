"""Carries connections without I/O over TCP: who may come in, who is read, and what is written.

`Peer` is one connection; `listen` and `connect` make them, `Greeter` reads what comes before their
first frame, and `ConnectionAdmission` says who may stay.
"""

from sprocket.runtime.driver.addresses import (
    CONNECT_SECONDS_MAX,
    address,
    address_of,
    local_ip,
    resolve,
)
from sprocket.runtime.driver.admission import ConnectionAdmission, PortAdmission
from sprocket.runtime.driver.event_loop import new_event_loop, run
from sprocket.runtime.driver.greeting import Greeter
from sprocket.runtime.driver.peer import (
    Buffer,
    Carried,
    Carrier,
    ConnectionSettings,
    E,
    Greet,
    OnEvent,
    Peer,
    PeerState,
    PortPolicy,
    ReadHold,
    carrier,
)
from sprocket.runtime.driver.ports import Bound, Server, admitting, bind, connect, listen

__all__ = [
    "CONNECT_SECONDS_MAX",
    "Bound",
    "Buffer",
    "Carried",
    "Carrier",
    "ConnectionAdmission",
    "ConnectionSettings",
    "E",
    "Greet",
    "Greeter",
    "OnEvent",
    "Peer",
    "PeerState",
    "PortAdmission",
    "PortPolicy",
    "ReadHold",
    "Server",
    "address",
    "address_of",
    "admitting",
    "bind",
    "carrier",
    "connect",
    "listen",
    "local_ip",
    "new_event_loop",
    "resolve",
    "run",
]
