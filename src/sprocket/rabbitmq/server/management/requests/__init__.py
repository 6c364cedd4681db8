"""A request of the API as everything that answers one sees it: route, user, lists, answer.

`get`, `put`, `post` and `delete` declare what a path is, `Callers` says who asks and what that user
may, `Call` is what was asked, `Listed` a list as it is wanted; `answers` turns values into JSON and
errors into RabbitMQ's. `made_of_each` and its like work on many objects some at a time.
"""

from sprocket.rabbitmq.server.management.requests import answers
from sprocket.rabbitmq.server.management.requests.answers import (
    REALM,
    ApiError,
    Json,
    not_found,
)
from sprocket.rabbitmq.server.management.requests.callers import (
    ADMINISTRATOR,
    LAST_ADMINISTRATOR,
    Caller,
    Callers,
    Level,
    Unnamed,
    keep_an_administrator,
)
from sprocket.rabbitmq.server.management.requests.calls import (
    Call,
    boolean,
    members,
    split_target,
    text,
)
from sprocket.rabbitmq.server.management.requests.pages import (
    Listed,
    chosen,
    listed,
    query_columns,
    shown,
)
from sprocket.rabbitmq.server.management.requests.routes import (
    ApiRoute,
    Handler,
    delete,
    get,
    post,
    put,
)
from sprocket.rabbitmq.server.management.requests.turns import (
    in_order,
    json_array,
    made_of_each,
)

__all__ = [
    "ADMINISTRATOR",
    "LAST_ADMINISTRATOR",
    "REALM",
    "ApiError",
    "ApiRoute",
    "Call",
    "Caller",
    "Callers",
    "Handler",
    "Json",
    "Level",
    "Listed",
    "Unnamed",
    "answers",
    "boolean",
    "chosen",
    "delete",
    "get",
    "in_order",
    "json_array",
    "keep_an_administrator",
    "listed",
    "made_of_each",
    "members",
    "not_found",
    "post",
    "put",
    "query_columns",
    "shown",
    "split_target",
    "text",
]
