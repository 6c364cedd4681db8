"""What is served here, for tools that ask the server for its protocol, such as `grpcurl`.

Source: gRPC Server Reflection Protocol.
"""

from functools import lru_cache
from typing import Final

from google.protobuf.descriptor import FileDescriptor

from sprocket.rocketmq.codec.grpc.descriptors import POOL, SERVICES
from sprocket.rocketmq.codec.grpc.standard_messages import (
    ErrorResponse,
    FileDescriptorResponse,
    ListServiceResponse,
    ServerReflectionRequest,
    ServerReflectionResponse,
    ServiceResponse,
)
from sprocket.rocketmq.server.grpc.calls import ClientCall
from sprocket.runtime.grpc import StatusCode

ReflectionCall = ClientCall[ServerReflectionRequest, ServerReflectionResponse]


QUESTION_BYTES: Final = 128
"""A longer question has an answer of its own each time."""


def reflect(call: ReflectionCall) -> None:
    """Answer one question. Anybody may ask, and what is served does not change."""
    question = call.request.SerializeToString()
    answered = _remembered if len(question) <= QUESTION_BYTES else _answered
    call.give_encoded(answered(question))


def _answered(question: bytes) -> bytes:
    asked = ServerReflectionRequest.FromString(question)
    answer = ServerReflectionResponse(valid_host=asked.host, original_request=asked)
    try:
        match asked.WhichOneof("message_request"):
            case "list_services":
                services = [ServiceResponse(name=name) for name in SERVICES]
                answer.list_services_response.CopyFrom(ListServiceResponse(service=services))
            case "file_by_filename":
                answer.file_descriptor_response.CopyFrom(
                    _files(POOL.FindFileByName(asked.file_by_filename))
                )
            case "file_containing_symbol":
                answer.file_descriptor_response.CopyFrom(
                    _files(POOL.FindFileContainingSymbol(asked.file_containing_symbol))
                )
            case "all_extension_numbers_of_type":
                name = asked.all_extension_numbers_of_type
                POOL.FindMessageTypeByName(name)
                answer.all_extension_numbers_response.base_type_name = name
            case _:
                raise KeyError("there are no extensions")
    except KeyError as error:
        why = f"not found: {error.args[0] if error.args else ''}"
        answer.error_response.CopyFrom(
            ErrorResponse(error_code=StatusCode.NOT_FOUND, error_message=why)
        )
    return answer.SerializeToString()


_remembered = lru_cache(64)(_answered)


def _files(found: FileDescriptor) -> FileDescriptorResponse:
    """Return a file, and behind it those that it needs."""
    ordered: dict[str, bytes] = {}

    def add(file: FileDescriptor) -> None:
        for one in file.dependencies:
            add(one)
        ordered.setdefault(file.name, file.serialized_pb)

    add(found)
    return FileDescriptorResponse(file_descriptor_proto=[*reversed(ordered.values())])
