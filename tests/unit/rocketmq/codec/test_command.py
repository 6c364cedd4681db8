"""Commands: what the header of a frame says."""

import json

import msgspec
import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import command, headers
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.ext import FieldUnreadable
from sprocket.rocketmq.codec.frame import BINARY, JSON, Buffer
from sprocket.rocketmq.remoting import Connection

# Vector 1 of the protocol's description: GET_ROUTEINFO_BY_TOPIC for topic T from Java.
ROUTE_HEADER = (
    b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":0,'
    b'"serializeTypeCurrentRPC":"JSON","version":479}'
)


def decode(header: str | bytes, body: bytes = b"") -> Command:
    """Read a JSON header; an opaque that is missing becomes 77."""
    data = header.encode() if isinstance(header, str) else header
    return command.decode(JSON, data, body, lambda: 77)


def read(buffers: list[Buffer]) -> Command:
    """Read the one frame that `buffers` make."""
    (found,) = Connection().receive(b"".join(buffers))
    return found


def test_vector_1_is_read() -> None:
    """The frame of the Java client, whose first 16 bytes are known."""
    data = bytes.fromhex("0000007f 0000007b") + ROUTE_HEADER
    assert bytes.fromhex("0000007f0000007b7b22636f6465223a") == data[:16]
    (found,) = Connection().receive(data)
    assert (
        found.code,
        found.opaque,
        found.flag,
        found.language,
        found.version,
        found.remark,
        found.body,
        found.serialize,
    ) == (105, 0, 0, "JAVA", 479, None, b"", JSON)
    assert found.header(headers.GetRoute).topic == "T"


def test_vector_2_is_read() -> None:
    """The same request with a binary header: 41 bytes in all."""
    data = bytes.fromhex(
        "00000025 01000021 0069 00 01df 00000007 00000000 00000000 0000000c"
        "0005 746f706963 00000001 54"
    )
    (found,) = Connection().receive(data)
    assert (found.code, found.opaque, found.serialize) == (105, 7, BINARY)
    assert found.header(headers.GetRoute).topic == "T"


def test_a_request_is_what_java_would_send() -> None:
    """Members in order, no white space, our own language and version."""
    data = b"".join(command.request(105, 0, headers.TopicOnly(topic="T"), b"body"))
    expected = ROUTE_HEADER.replace(b"JAVA", b"PYTHON")
    assert data[:8] == bytes.fromhex("00000085 0000007d")
    assert expected + b"body" == data[8:]


PULL = headers.PullMessage(
    consumer_group="g\u00fc",
    topic='t"\\',
    queue_id=-1,
    queue_offset=1 << 40,
    max_msg_nums=32,
    sys_flag=2,
)
"""Texts that need an escape, and numbers at both ends."""


@pytest.mark.parametrize("oneway", [False, True])
def test_a_request_with_a_header_alone_is_as_one_with_more(oneway: bool) -> None:
    """Those that are sent by the thousand are written another way; it says the same."""
    plain = command.request(11, 9, PULL, oneway=oneway)
    more = command.request(11, 9, PULL, oneway=oneway, extra={"zz": "1"})
    one, other = (json.loads(b"".join(frame)[8:]) for frame in (plain, more))
    assert other["extFields"].pop("zz") == "1"
    assert list(one) == list(other)
    assert one == other


def test_a_request_without_header_has_no_ext_fields() -> None:
    """As Java leaves the member out."""
    head = bytes(command.request(206, 1)[0])
    assert b"extFields" not in head
    assert read([head]).ext_map() == {}


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_a_request_is_read_back(serialize: int) -> None:
    """In both forms, with fields that the header does not declare."""
    data = command.request(
        11, 9, PULL, b"body", oneway=True, serialize=serialize, extra={"more": "1"}
    )
    found = read(data)
    assert found.header(headers.PullMessage) == PULL
    assert found.ext_map()["more"] == "1"
    assert (found.is_oneway, found.is_response, found.body) == (True, False, b"body")


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_a_response_echoes_opaque_and_form(serialize: int) -> None:
    """Bit 0 is set, ext values are texts, the remark is there if there is one."""
    asked = Command(310, opaque=42, serialize=serialize)
    header = headers.SendMessageAnswer(msg_id="ID", queue_id=3, queue_offset=7)
    for remark in (None, "why ü"):
        data = command.response(asked, 10, header, remark, [b"a", memoryview(b"b")], {"X": "y"})
        found = read(data)
        assert (10, 42, 1, serialize) == (
            found.code,
            found.opaque,
            found.flag,
            found.serialize,
        )
        assert (remark, b"ab", "PYTHON", 479, True) == (
            found.remark,
            found.body,
            found.language,
            found.version,
            found.is_response,
        )
        assert found.ext_map() == {
            "msgId": "ID",
            "queueId": "3",
            "queueOffset": "7",
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
            "X": "y",
        }


def test_a_json_response_has_the_members_of_rocketmqs_in_its_order() -> None:
    """Those of a header by their names; ext fields if the code has some, empty or not."""
    data = b"".join(command.response(Command(10), 0, None, "r"))
    assert list(json.loads(data[8:])) == sorted(json.loads(data[8:]))
    assert "extFields" not in json.loads(data[8:])
    data = b"".join(command.response(Command(10), 0, headers.NoFields()))
    assert list(json.loads(data[8:])) == sorted(json.loads(data[8:]))
    assert json.loads(data[8:])["extFields"] == {}
    assert "remark" not in json.loads(data[8:])


def test_a_remark_does_not_grow_with_what_it_quotes() -> None:
    """4096 characters, and no half of a pair that could not be written."""
    for remark in ("x" * 100_000, "\ud800"):
        found = read(command.response(Command(10), 1, None, remark)).remark
        assert found is not None
        assert len(found) <= 4096


@pytest.mark.parametrize(
    "header",
    [
        '{"Code":105,"ExtFields":{"topic":"T"},"FLAG":0,"language":"JAVA","opaque":0,"version":479}',
        (
            '{"code":"105","extFields":{"topic":"T"},"flag":"0","language":"java","opaque":"0",'
            '"version":"479"}'
        ),
        (
            '{"code":105,"extFields":{"topic":"T"},"flag":0,"language":0,"opaque":0,"version":479,'
            '"unknown":[{}]}'
        ),
        (
            '  {"version":479, "opaque":0,\n"language":"JAVA","extFields":{"topic":"T","n":null},'
            '"flag":0,"code":105,"remark":null}\n'
        ),
    ],
)
def test_headers_as_other_clients_write_them_are_read(header: str) -> None:
    """Members in another case, numbers as texts, unknown members, white space, null."""
    found = decode(header)
    assert (
        found.code,
        found.opaque,
        found.flag,
        found.language,
        found.version,
        found.remark,
    ) == (105, 0, 0, "JAVA", 479, None)
    assert found.ext_map() == {"topic": "T"}
    assert found.header(headers.GetRoute).topic == "T"


def test_missing_members_have_defaults() -> None:
    """Flag and version 0, an opaque of our own, language OTHER."""
    found = decode('{"code":1}')
    assert (
        found.code,
        found.opaque,
        found.flag,
        found.language,
        found.version,
    ) == (1, 77, 0, "OTHER", 0)


@pytest.mark.parametrize("language", ['"BRAINFUCK"', "null", '""'])
def test_an_unknown_language_is_other(language: str) -> None:
    """It is for statistics only."""
    assert decode(f'{{"code":1,"language":{language}}}').language == "OTHER"


@pytest.mark.parametrize(
    "header",
    [
        "",
        "null",
        "[]",
        "5",
        '{"code":1',
        '{"code":1} x',
        '{"code":[]}',
        '{"code":"x"}',
        '{"code":true}',
        '{"code":1e999}',
        '{"opaque":2147483648}',
        '{"opaque":-2147483649}',
        '{"language":99}',
        '{"language":-1}',
        '{"language":1.5}',
        '{"language":true}',
        '{"language":[]}',
        '{"serializeTypeCurrentRPC":7}',
        '{"extFields":5}',
        '{"extFields":[]}',
        '{"extFields":""}',
        "[" * 100_000,
        '{"code":1,"flag":0,"language":"JAVA","opaque":0,"version":0,"extFields":' + "[" * 100_000,
        '{"code":' + "9" * 5000 + "}",
    ],
)
def test_a_header_that_cannot_be_read_is_a_wire_error(header: str) -> None:
    """Whatever is wrong with it, never another exception."""
    with pytest.raises(WireError):
        decode(header)


def test_broken_utf8_in_a_header_breaks_the_connection() -> None:
    """A name or a property would be stored as something else than what was sent."""
    with pytest.raises(WireError):
        decode(ROUTE_HEADER.replace(b'"T"', b'"\xff"'))


@pytest.mark.parametrize(
    "text", ["1.0", '"1.0"', '"+1.0"', "1.", '"1."', '"-0.0"', '"1.00"', "1.5"]
)
def test_a_fraction_is_no_whole_number(text: str) -> None:
    """Though `msgspec` takes it for one."""
    ext = f'{{"topic":"a.b","queueId":{text}}}'.encode()
    header = ROUTE_HEADER.replace(b'{"topic":"T"}', ext)
    found = decode(header)
    with pytest.raises(FieldUnreadable, match="queueId is not a number"):
        found.header(headers.TopicQueue)


def test_a_request_without_number_is_not_answered_as_number_0() -> None:
    """That may be the number of the sender's own first request."""
    numbers = iter(range(5))
    found = command.decode(JSON, b'{"code":1}', b"", lambda: next(numbers))
    assert found.opaque == 1


def test_ext_values_become_texts() -> None:
    """C++ sends numbers; what is nested stays JSON; null is absent."""
    found = decode('{"code":1,"extFields":{"n":5,"b":true,"f":1.5,"o":{"a":[1]},"z":null,"e":""}}')
    expected = {"n": "5", "b": "true", "f": "1.5", "o": '{"a":[1]}', "e": ""}
    assert expected == found.ext_map()


def test_a_header_with_numbers_for_texts_is_read() -> None:
    """The slow way gives what the fast way would."""
    fields = '"topic":5,"queueId":7,"timestamp":"8","boundaryType":null'
    found = decode(ROUTE_HEADER.decode().replace('"topic":"T"', fields))
    expected = headers.SearchOffset(topic="5", queue_id=7, timestamp=8)
    assert expected == found.header(headers.SearchOffset)


@pytest.mark.parametrize("serialize", [JSON, BINARY])
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"topic": "T"}, "queueId is missing"),
        ({"topic": "T", "queueId": "x"}, "queueId is not a number: 'x'"),
        ({"topic": "T", "queueId": "99999999999"}, "queueId"),
    ],
)
def test_a_request_that_lacks_a_field_is_refused(
    fields: dict[str, str], expected: str, serialize: int
) -> None:
    """SYSTEM_ERROR, with a remark that names the field; the connection goes on."""
    found = read(command.request(30, 1, extra=fields, serialize=serialize))
    with pytest.raises(WireError) as refused:
        found.header(headers.TopicQueue)
    assert expected in str(refused.value)


def test_a_request_without_ext_fields_lacks_all() -> None:
    """No member, null and an empty object are the same."""
    for header in ('{"code":30}', '{"code":30,"extFields":null}', '{"code":30,"extFields":{}}'):
        with pytest.raises(FieldUnreadable):
            decode(header).header(headers.TopicQueue)


@pytest.mark.parametrize("ext", [b"[1]", b"[]", b'"x"', b"5", b"true"])
def test_ext_fields_that_are_no_object_break_the_connection(ext: bytes) -> None:
    """Though nobody has asked for them yet."""
    with pytest.raises(WireError):
        decode(ROUTE_HEADER.replace(b'{"topic":"T"}', ext))


@pytest.mark.parametrize("depth", [500, 100_000])
def test_ext_fields_nested_too_deep_are_a_wire_error(depth: int) -> None:
    """Neither a crash nor another exception, wherever they are looked at."""
    header = ROUTE_HEADER.replace(b'"T"', b"[" * depth + b"]" * depth)
    with pytest.raises(WireError):
        decode(header).header(headers.GetRoute)


def test_a_header_in_fastjsons_dialect_is_read() -> None:
    """Names without quotes, single quotes, commas too many, a comment."""
    header = "{code:105,'extFields':{topic:'T',n:5,},/* why not */flag:0,opaque:3,}"
    found = decode(header)
    assert (found.code, found.opaque, found.ext_map()) == (105, 3, {"topic": "T", "n": "5"})


def test_a_long_header_is_read_fast_or_not_at_all() -> None:
    """What takes Python a microsecond for each byte could hold up every other connection."""
    long = ROUTE_HEADER.replace(b'"T"', b'"' + b"T" * command.SLOW_BYTES_MAX + b'"')
    assert len(decode(long).header(headers.GetRoute).topic) == command.SLOW_BYTES_MAX
    with pytest.raises(WireError, match="unusual header"):
        decode(long.replace(b"code", b"Code"))


def test_unknown_serialize_types_are_refused() -> None:
    """Only 0 and 1 exist."""
    with pytest.raises(WireError):
        command.decode(2, ROUTE_HEADER, b"", lambda: 0)


def test_raw_ext_fields_are_read_once() -> None:
    """After the first look they are a dictionary."""
    found = decode(ROUTE_HEADER)
    before = found.ext
    assert isinstance(before, msgspec.Raw)
    assert found.ext_map() is found.ext_map()
    assert found.header(headers.GetRoute).topic == "T"


def test_codes_of_the_table_are_written_as_numbers() -> None:
    """An IntEnum is not different from its number."""
    data = b"".join(command.request(RequestCode.GET_MAX_OFFSET, 0))
    assert b'"code":30,' in data


EXT = {
    310: '"a":"p","b":"T","e":"1","f":"0","g":"9","h":"0","i":"x\\u0001y\\u0002"',
    11: '"consumerGroup":"g","topic":"T","queueId":"0","queueOffset":"7","maxMsgNums":"32",'
    '"sysFlag":"2"',
    37: '"producerGroup":"g","tranStateTableOffset":"3","commitLogOffset":"7",'
    '"commitOrRollback":"8",'
    '"fromTransactionCheck":"true"',
}


@pytest.mark.parametrize("code", EXT)
@pytest.mark.parametrize(
    "rest",
    [
        '"extFields":{%s},"flag":0,"language":"JAVA","opaque":1,"version":479}',
        '"extFields":{%s,"more":"1"},"flag":0,"language":"JAVA","opaque":1,"version":479}',
        '"extFields":{%s},"flag":"2","language":"JAVA","opaque":"1","version":479}',
        '"extFields":{%s},"flag":0,"language":"lua","opaque":1,"version":479,"x":1}',
        '"extFields":{%s,"l":"many","subVersion":true},"flag":0,"opaque":1,"remark":null}',
        '"extFields":{},"flag":0,"language":"JAVA","opaque":1,"version":479}',
        '"flag":0,"language":"JAVA","opaque":1,"version":479}',
        '"extFields":null,"flag":0,"language":"JAVA","opaque":1,"version":479}',
    ],
)
def test_hot_headers_are_read_as_all_others(code: int, rest: str) -> None:
    """A blank before the code keeps the quick way from seeing it, one more member all fast ways."""
    kind = command.HOT_HEADERS[RequestCode(code)]
    rest = rest.replace("%s", EXT[code])
    quick = decode(f'{{"code":{code},{rest}')
    plain = decode(f'{{ "code":{code},{rest}')
    slow = decode(f'{{"code":{code},{rest[:-1]},"unknown":1}}')
    assert quick.ext_map() == plain.ext_map() == slow.ext_map()
    for name in ("code", "opaque", "flag", "language", "version", "remark"):
        assert getattr(quick, name) == getattr(plain, name) == getattr(slow, name)
    outcomes: list[object] = []
    for found in quick, plain, slow:
        try:
            outcomes.append(found.header(kind))
        except WireError as refused:
            outcomes.append(str(refused))
    assert outcomes[0] == outcomes[1] == outcomes[2]
