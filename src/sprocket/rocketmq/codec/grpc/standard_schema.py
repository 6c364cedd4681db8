"""Services that tools ask of any server of gRPC: whether it is healthy, and what it serves.

Source: grpc.health.v1, and grpc.reflection v1 and v1alpha, which have the same messages.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import structs

from sprocket.rocketmq.codec.grpc.schema import ProtoField, Rpc

HEALTH_PACKAGE: Final = "grpc.health.v1"
HEALTH_SERVICE: Final = f"{HEALTH_PACKAGE}.Health"
REFLECTION_PACKAGES: Final = ("grpc.reflection.v1", "grpc.reflection.v1alpha")
REFLECTION: Final = "ServerReflection"

HEALTH_ENUMS: Final[Mapping[str, Sequence[str]]] = {
    "ServingStatus": ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"),
}
HEALTH_MESSAGES: Final[Mapping[str, Sequence[ProtoField]]] = {
    "HealthCheckRequest": (ProtoField("service", 1, "string"),),
    "HealthCheckResponse": (ProtoField("status", 1, "ServingStatus"),),
}
HEALTH_RPCS: Final = (
    Rpc("Check", "HealthCheckRequest", "HealthCheckResponse", service=HEALTH_SERVICE),
    Rpc(
        *("Watch", "HealthCheckRequest", "HealthCheckResponse"),
        gives_stream=True,
        service=HEALTH_SERVICE,
    ),
)

_ASKED = "message_request"
_SAID = "message_response"


def _either(choice: str, *fields: ProtoField) -> Sequence[ProtoField]:
    return [structs.replace(field, choice=choice) for field in fields]


REFLECTION_MESSAGES: Final[Mapping[str, Sequence[ProtoField]]] = {
    "ExtensionRequest": (
        ProtoField("containing_type", 1, "string"),
        ProtoField("extension_number", 2, "int32"),
    ),
    "ServerReflectionRequest": (
        ProtoField("host", 1, "string"),
        *_either(
            _ASKED,
            ProtoField("file_by_filename", 3, "string"),
            ProtoField("file_containing_symbol", 4, "string"),
            ProtoField("file_containing_extension", 5, "ExtensionRequest"),
            ProtoField("all_extension_numbers_of_type", 6, "string"),
            ProtoField("list_services", 7, "string"),
        ),
    ),
    "FileDescriptorResponse": (ProtoField("file_descriptor_proto", 1, "bytes", is_repeated=True),),
    "ExtensionNumberResponse": (
        ProtoField("base_type_name", 1, "string"),
        ProtoField("extension_number", 2, "int32", is_repeated=True),
    ),
    "ServiceResponse": (ProtoField("name", 1, "string"),),
    "ListServiceResponse": (ProtoField("service", 1, "ServiceResponse", is_repeated=True),),
    "ErrorResponse": (
        ProtoField("error_code", 1, "int32"),
        ProtoField("error_message", 2, "string"),
    ),
    "ServerReflectionResponse": (
        ProtoField("valid_host", 1, "string"),
        ProtoField("original_request", 2, "ServerReflectionRequest"),
        *_either(
            _SAID,
            ProtoField("file_descriptor_response", 4, "FileDescriptorResponse"),
            ProtoField("all_extension_numbers_response", 5, "ExtensionNumberResponse"),
            ProtoField("list_services_response", 6, "ListServiceResponse"),
            ProtoField("error_response", 7, "ErrorResponse"),
        ),
    ),
}
REFLECTION_RPCS: Final = tuple(
    Rpc(
        *("ServerReflectionInfo", "ServerReflectionRequest", "ServerReflectionResponse"),
        takes_stream=True,
        gives_stream=True,
        service=f"{package}.{REFLECTION}",
    )
    for package in REFLECTION_PACKAGES
)
