"""HTTP/1.1 for what a program serves beside its own protocol: administration, metrics.

`HttpConnection` reads and writes without I/O, `h11` doing the protocol; `HttpServer` has requests
handled one after the other, each in a task of its own, on connections that the TCP driver carries.
`HttpClient` asks other servers. `MetricsText` writes what Prometheus scrapes.
"""

from sprocket.runtime.http.client import (
    AnswerEnd,
    AnswerHead,
    AnswerPart,
    HttpAnswer,
    HttpAnswers,
    HttpClient,
)
from sprocket.runtime.http.connection import (
    BodyBegun,
    HttpConnection,
    HttpFailure,
    HttpRequest,
    HttpResponse,
)
from sprocket.runtime.http.metrics import Family, Group, MetricsText, labelled
from sprocket.runtime.http.server import HttpServer

__all__ = [
    "AnswerEnd",
    "AnswerHead",
    "AnswerPart",
    "BodyBegun",
    "Family",
    "Group",
    "HttpAnswer",
    "HttpAnswers",
    "HttpClient",
    "HttpConnection",
    "HttpFailure",
    "HttpRequest",
    "HttpResponse",
    "HttpServer",
    "MetricsText",
    "labelled",
]
