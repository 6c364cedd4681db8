"""Probes and tools that ask any server of gRPC: its health, and what it serves."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from tests.waits import LONG_SECONDS

from sprocket.base.errors import DiskFailed
from sprocket.rocketmq.codec.grpc.descriptors import SERVICES
from sprocket.rocketmq.codec.grpc.schema import RPCS, SERVICE
from sprocket.rocketmq.codec.grpc.standard_messages import (
    HealthCheckRequest,
    HealthCheckResponse,
    ServerReflectionRequest,
    ServerReflectionResponse,
)

OnGrpc = Callable[..., None]
SERVING, NOT_SERVING, UNKNOWN = 1, 2, 3


async def check(lab: Any, service: str = "") -> int:
    """Ask how a service is."""
    method = lab.another("").channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        request_serializer=lambda one: one.SerializeToString(),
        response_deserializer=HealthCheckResponse.FromString,
    )
    answer = await method(HealthCheckRequest(service=service), timeout=LONG_SECONDS)
    return int(answer.status)


def test_a_broker_is_healthy_while_it_stores(on_grpc: OnGrpc) -> None:
    """For probes that say nothing of themselves; those who watch are told of a change."""

    async def scenario(lab: Any) -> None:
        assert await check(lab) == await check(lab, SERVICE) == SERVING
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await check(lab, "other")
        assert failed.value.code() is grpc.StatusCode.NOT_FOUND
        method = lab.another("").channel.unary_stream(
            "/grpc.health.v1.Health/Watch",
            request_serializer=lambda one: one.SerializeToString(),
            response_deserializer=HealthCheckResponse.FromString,
        )
        stream = method(HealthCheckRequest(), timeout=LONG_SECONDS)
        assert (await asyncio.wait_for(stream.read(), LONG_SECONDS)).status == SERVING
        lab.make_topic()

        def fail(call: str, path: str) -> None:
            if "commitlog" in path and "sync" in call:
                raise DiskFailed("no")

        lab.broker.place.disk.before = fail
        await lab.lab.message(body=b"x")
        assert lab.broker.refusal is not None
        lab.service.health.look()
        assert (await asyncio.wait_for(stream.read(), LONG_SECONDS)).status == NOT_SERVING
        assert await check(lab) == NOT_SERVING
        stream.cancel()
        unknown = method(HealthCheckRequest(service="other"), timeout=LONG_SECONDS)
        assert (await asyncio.wait_for(unknown.read(), LONG_SECONDS)).status == UNKNOWN
        unknown.cancel()

    on_grpc(scenario)


async def ask(lab: Any, package: str, **question: str) -> ServerReflectionResponse:
    """Ask what is served."""
    method = lab.another("").channel.stream_stream(
        f"/{package}.ServerReflection/ServerReflectionInfo",
        request_serializer=lambda one: one.SerializeToString(),
        response_deserializer=ServerReflectionResponse.FromString,
    )
    stream = method(timeout=LONG_SECONDS)
    await stream.write(ServerReflectionRequest(**question))  # type: ignore[arg-type]
    answer: ServerReflectionResponse = await asyncio.wait_for(stream.read(), LONG_SECONDS)
    await stream.done_writing()
    return answer


@pytest.mark.parametrize("package", ["grpc.reflection.v1", "grpc.reflection.v1alpha"])
def test_tools_learn_what_is_served(on_grpc: OnGrpc, package: str) -> None:
    """All that they need to call it."""

    async def scenario(lab: Any) -> None:
        listed = await ask(lab, package, list_services="")
        names = [one.name for one in listed.list_services_response.service]
        assert names == SERVICES
        pool = DescriptorPool()
        for name in names:
            answer = await ask(lab, package, file_containing_symbol=name)
            files = [
                FileDescriptorProto.FromString(data)
                for data in answer.file_descriptor_response.file_descriptor_proto
            ]
            for file in reversed(files):
                pool.Add(file)
            said = {one.name: one.json_name for kind in files[0].message_type for one in kind.field}
            assert said.get("message_queues", "messageQueues") == "messageQueues"
            assert all(said.values())
        service = pool.FindServiceByName(SERVICE)
        assert [one.name for one in service.methods] == [rpc.name for rpc in RPCS]
        telemetry = service.methods_by_name["Telemetry"]
        assert (telemetry.client_streaming, telemetry.server_streaming) == (True, True)
        missing = await ask(lab, package, file_containing_symbol="no.such.Thing")
        assert missing.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
        by_name = await ask(lab, package, file_by_filename="sprocket/health.proto")
        assert len(by_name.file_descriptor_response.file_descriptor_proto) == 1

    on_grpc(scenario)
