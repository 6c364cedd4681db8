"""Made by `python -m tests.unit.rocketmq.codec.grpc.grpc_stubs`; do not edit."""

from collections.abc import Iterable, Mapping, MutableMapping

from google.protobuf.duration_pb2 import Duration
from google.protobuf.internal.containers import (
    RepeatedCompositeFieldContainer,
    RepeatedScalarFieldContainer,
)
from google.protobuf.message import Message as _Message
from google.protobuf.timestamp_pb2 import Timestamp

class HealthCheckRequest(_Message):
    service: str
    def __init__(
        self,
        *,
        service: str | None = ...,
    ) -> None: ...

class HealthCheckResponse(_Message):
    status: int
    def __init__(
        self,
        *,
        status: int | None = ...,
    ) -> None: ...

class ExtensionRequest(_Message):
    containing_type: str
    extension_number: int
    def __init__(
        self,
        *,
        containing_type: str | None = ...,
        extension_number: int | None = ...,
    ) -> None: ...

class ServerReflectionRequest(_Message):
    host: str
    file_by_filename: str
    file_containing_symbol: str
    file_containing_extension: ExtensionRequest
    all_extension_numbers_of_type: str
    list_services: str
    def __init__(
        self,
        *,
        host: str | None = ...,
        file_by_filename: str | None = ...,
        file_containing_symbol: str | None = ...,
        file_containing_extension: ExtensionRequest | None = ...,
        all_extension_numbers_of_type: str | None = ...,
        list_services: str | None = ...,
    ) -> None: ...

class FileDescriptorResponse(_Message):
    file_descriptor_proto: RepeatedScalarFieldContainer[bytes]
    def __init__(
        self,
        *,
        file_descriptor_proto: Iterable[bytes] = ...,
    ) -> None: ...

class ExtensionNumberResponse(_Message):
    base_type_name: str
    extension_number: RepeatedScalarFieldContainer[int]
    def __init__(
        self,
        *,
        base_type_name: str | None = ...,
        extension_number: Iterable[int] = ...,
    ) -> None: ...

class ServiceResponse(_Message):
    name: str
    def __init__(
        self,
        *,
        name: str | None = ...,
    ) -> None: ...

class ListServiceResponse(_Message):
    service: RepeatedCompositeFieldContainer[ServiceResponse]
    def __init__(
        self,
        *,
        service: Iterable[ServiceResponse] = ...,
    ) -> None: ...

class ErrorResponse(_Message):
    error_code: int
    error_message: str
    def __init__(
        self,
        *,
        error_code: int | None = ...,
        error_message: str | None = ...,
    ) -> None: ...

class ServerReflectionResponse(_Message):
    valid_host: str
    original_request: ServerReflectionRequest
    file_descriptor_response: FileDescriptorResponse
    all_extension_numbers_response: ExtensionNumberResponse
    list_services_response: ListServiceResponse
    error_response: ErrorResponse
    def __init__(
        self,
        *,
        valid_host: str | None = ...,
        original_request: ServerReflectionRequest | None = ...,
        file_descriptor_response: FileDescriptorResponse | None = ...,
        all_extension_numbers_response: ExtensionNumberResponse | None = ...,
        list_services_response: ListServiceResponse | None = ...,
        error_response: ErrorResponse | None = ...,
    ) -> None: ...
