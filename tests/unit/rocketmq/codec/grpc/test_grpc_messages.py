"""The messages of the gRPC service: what is declared is what is sent, and nothing clashes."""

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pool
from tests.unit.rocketmq.codec.grpc import grpc_stubs

from sprocket.rocketmq.codec.grpc import messages
from sprocket.rocketmq.codec.grpc.descriptors import CLASSES, POOL
from sprocket.rocketmq.codec.grpc.schema import ENUMS, MESSAGES, PACKAGE, RPCS
from sprocket.rocketmq.codec.grpc.status import Code


def test_a_message_is_what_protobuf_makes_of_it() -> None:
    """Field by field, byte by byte: number and type, then the value."""
    asked = messages.QueryRouteRequest(
        topic=messages.Resource(name="orders"),
        endpoints=messages.Endpoints(
            scheme=1, addresses=[messages.Address(host="127.0.0.1", port=8081)]
        ),
    )
    expected = bytes.fromhex("0a08 1206") + b"orders" + bytes.fromhex("1212 0801 120e 0a09")
    expected += b"127.0.0.1" + bytes.fromhex("10913f")
    assert asked.SerializeToString() == expected
    assert messages.QueryRouteRequest.FromString(expected) == asked


@pytest.mark.parametrize("name", MESSAGES)
def test_each_field_is_told_apart(name: str) -> None:
    """By its number, which no other has; an optional one also if it is 0."""
    fields = MESSAGES[name]
    assert len({field.number for field in fields}) == len(fields)
    described = CLASSES[name].DESCRIPTOR.fields_by_name
    assert {field.name: field.number for field in fields} == {
        one.name: one.number for one in described.values()
    }
    for field in fields:
        is_told = described[field.name].has_presence
        is_message = described[field.name].message_type is not None
        assert (
            is_told
            == (field.is_optional or bool(field.choice) or (is_message and not field.is_repeated))
            or field.kind == "map"
        )


def test_choices_leave_one() -> None:
    """What was there before is gone."""
    said = messages.TelemetryCommand(settings=messages.Settings())
    said.verify_message_command.nonce = "n"
    assert said.WhichOneof("command") == "verify_message_command"
    assert not said.HasField("settings")


def test_maps_and_lists() -> None:
    """Of texts, and of messages."""
    said = messages.Message(user_properties={"a": "1"})
    said.system_properties.keys.extend(["k1", "k2"])
    again = messages.Message.FromString(said.SerializeToString())
    assert (dict(again.user_properties), [*again.system_properties.keys]) == (
        {"a": "1"},
        ["k1", "k2"],
    )


def test_enums_have_the_numbers_of_the_protocol() -> None:
    """Those of status codes are declared by themselves."""
    assert POOL.FindEnumTypeByName(f"{PACKAGE}.Code").values_by_name["OK"].number == Code.OK
    for name, values in ENUMS.items():
        described = POOL.FindEnumTypeByName(f"{PACKAGE}.{name}").values
        assert [one.name for one in described] == list(values)


def test_methods_take_messages_that_there_are() -> None:
    """And are asked for by path."""
    assert {rpc.request for rpc in RPCS} | {rpc.response for rpc in RPCS} <= set(MESSAGES)
    assert RPCS[0].path == "/apache.rocketmq.v2.MessagingService/QueryRoute"


def test_nothing_is_registered_for_others() -> None:
    """A client of RocketMQ in the same process registers the same names."""
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName(f"{PACKAGE}.Resource")


@pytest.mark.parametrize("file", grpc_stubs.FILES)
def test_type_checkers_are_told_of_all(file: Path) -> None:
    """The file is what the schema makes of it."""
    made = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--stdin-filename", "messages.pyi", "-"],
        input=grpc_stubs.text(grpc_stubs.FILES[file]),
        capture_output=True,
        text=True,
        check=True,
    )
    assert file.read_text() == made.stdout
