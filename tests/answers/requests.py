"""The requests whose answers are recorded, in the order in which they are sent.

Each has a name, as a path: the family, what is special, and for those made in series the field that
is left out or spoilt. The recording holds the requests too; this module is needed to record anew.

In a request `$broker` stands for the broker's address, and `$offset(NAME)`, `$id(NAME)` for the
place in the log and the offset message id that the answer NAME told.
"""

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.answers.exchange import AWAIT_ANSWER, Exchange, Frames

Ext = Mapping[str, object]
Step = Exchange | Frames

UNIQUE = "7F00000100002A9F18B4AAC2000000"
NUMBERS = (
    " queueId sysFlag bornTimestamp flag defaultTopicQueueNums reconsumeTimes maxReconsumeTimes "
    "d e f g h j l queueOffset maxMsgNums commitOffset suspendTimeoutMillis subVersion maxNum "
    "beginTimestamp endTimestamp offset delayLevel timestamp readQueueNums writeQueueNums perm "
    "topicSysFlag index count brokerId heartbeatTimeoutMillis bodyCrc32 maxMsgBytes "
    "requestSource "
)
"""Fields that are numbers, each with a blank before and behind."""


def all_steps() -> Iterator[Step]:
    """Give every request in its order."""
    for family in (
        _framing,
        _topics,
        _groups,
        _sending,
        _batches,
        _pulling,
        _offsets,
        _queries,
        _send_back,
        _clients,
        _locks,
        _progress,
        _resets,
        _relays,
        _replies,
        _assignment,
        _status,
        _deleting,
        _names,
        _not_spoken,
    ):
        yield from family()


def _series(name: str, code: int, ext: Ext, body: str = "", **more: Any) -> Iterator[Exchange]:
    """Give a request as it should be, without ext fields, and without or with a bad one of each."""
    yield Exchange(name=name, code=code, ext=ext, body=body, **more)
    yield Exchange(name=f"{name}/no ext fields", code=code, ext=None, body=body, **more)
    for field in ext:
        rest = {other: value for other, value in ext.items() if other != field}
        yield Exchange(name=f"{name}/without {field}", code=code, ext=rest, body=body, **more)
        if f" {field} " in NUMBERS:
            bad = {**ext, field: "abc"}
            yield Exchange(name=f"{name}/{field} no number", code=code, ext=bad, body=body, **more)


def _one(name: str, code: int, ext: Ext | None = None, body: str = "", **more: Any) -> Exchange:
    return Exchange(name=name, code=code, ext={} if ext is None else ext, body=body, **more)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _props(**pairs: object) -> str:
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())


# Framing


def _framing() -> Iterator[Frames]:
    def frame(header: str | bytes, body: bytes = b"", kind: int = 0) -> bytes:
        data = header if isinstance(header, bytes) else header.encode()
        mark = kind << 24 | len(data)
        size = 4 + len(data) + len(body)
        return size.to_bytes(4, "big") + mark.to_bytes(4, "big") + data + body

    def header(**members: object) -> dict[str, object]:
        plain: dict[str, object] = {
            "code": 14,
            "extFields": {"consumerGroup": "F", "topic": "F", "queueId": "0"},
            "flag": 0,
            "language": "JAVA",
            "opaque": 5,
            "serializeTypeCurrentRPC": "JSON",
            "version": 479,
        }
        return {name: value for name, value in (plain | members).items() if value is not ...}

    def case(name: str, *chunks: bytes) -> Frames:
        return Frames(name=f"framing/{name}", chunks=chunks, to="broker")

    def plain(**members: object) -> bytes:
        return frame(_json(header(**members)))

    text = _json(header())
    yield case("plain", plain())
    yield case("no opaque", plain(opaque=...))
    yield case("opaque null", plain(opaque=None))
    yield case("opaque as text", plain(opaque="5"))
    yield case("opaque too large", plain(opaque=2**31))
    yield case("opaque negative", plain(opaque=-7))
    yield case("opaque a fraction", plain(opaque=5.5))
    yield case("no code", plain(code=...))
    yield case("code null", plain(code=None))
    yield case("code as text", plain(code="14"))
    yield case("code no number", plain(code="abc"))
    yield case("code too large", plain(code=2**31))
    yield case("code unknown", plain(code=9999))
    yield case("no flag", plain(flag=...))
    yield case("flag no number", plain(flag="abc"))
    yield case("one-way", plain(flag=2))
    yield case("an answer nobody waits for", plain(flag=1))
    yield case("flag with bits of no meaning", plain(flag=8))
    yield case("no version", plain(version=...))
    yield case("version no number", plain(version="abc"))
    yield case("version unheard of", plain(version=100_000))
    languages: Sequence[object] = (
        "java",
        "GO",
        "KLINGON",
        None,
        "",
        0,
        13,
        14,
        99,
        -1,
        1.5,
        True,
        [],
        {},
    )
    for language in languages:
        yield case(f"language {language!r}", plain(language=language))
    yield case("no language", plain(language=...))
    for kind in ("ROCKETMQ", "KLINGON", "json", None, 0, 7):
        yield case(f"serialize type {kind!r}", plain(serializeTypeCurrentRPC=kind))
    yield case("remark null", plain(remark=None))
    yield case("remark a number", plain(remark=5))
    yield case("remark a list", plain(remark=[1]))
    yield case("unknown member", plain(other={"a": [1]}))
    for what, ext in (
        ("absent", ...),
        ("null", None),
        ("empty", {}),
        ("a list", []),
        ("a list with one", ["a"]),
        ("a text", "topic"),
        ("an empty text", ""),
        ("a number", 5),
        ("true", True),
        ("with numbers", {"consumerGroup": "F", "topic": "F", "queueId": 0}),
        ("with null", {"consumerGroup": "F", "topic": "F", "queueId": None}),
        ("with an object", {"consumerGroup": "F", "topic": {"a": 1}, "queueId": "0"}),
        ("with a list", {"consumerGroup": "F", "topic": ["a"], "queueId": "0"}),
        ("with a fraction", {"consumerGroup": "F", "topic": "F", "queueId": 0.0}),
        ("with a fraction as text", {"consumerGroup": "F", "topic": "F", "queueId": "0.0"}),
        ("with true", {"consumerGroup": "F", "topic": "F", "queueId": True}),
        ("with blanks", {"consumerGroup": "F", "topic": "F", "queueId": " 0 "}),
        ("with a plus", {"consumerGroup": "F", "topic": "F", "queueId": "+0"}),
        ("with an underscore", {"consumerGroup": "F", "topic": "F", "queueId": "0_0"}),
        ("with other digits", {"consumerGroup": "F", "topic": "F", "queueId": "٠"}),
        ("too large a number", {"consumerGroup": "F", "topic": "F", "queueId": "2147483648"}),
    ):
        yield case(f"ext fields {what}", plain(extFields=ext))
    yield case("members in another case", frame(text.replace('"code"', '"Code"')))
    yield case(
        "all members in upper case", frame(_json({k.upper(): v for k, v in header().items()}))
    )
    yield case("ext fields in another case", frame(text.replace('"extFields"', '"EXTFIELDS"')))
    yield case("unquoted keys", frame(text.replace('"code"', "code").replace('"flag"', "flag")))
    yield case("single quotes", frame(text.replace('"', "'")))
    yield case("a comma too many", frame(text[:-1] + ",}"))
    yield case("blanks behind", frame(text + " \r\n\t"))
    yield case("a text behind", frame(text + "x"))
    yield case("an object behind", frame(text + "{}"))
    yield case("a null byte behind", frame(text + "\0"))
    yield case("a comment", frame("/* so */" + text))
    yield case("a byte order mark", frame("\ufeff" + text))
    yield case("broken UTF-8", frame(text.encode().replace(b'"F"', b'"\xff\xfe"', 1)))
    yield case("a list for a header", frame("[]"))
    yield case("a number for a header", frame("5"))
    yield case("null for a header", frame("null"))
    yield case("an empty object", frame("{}"))
    yield case("no header", frame(""))
    yield case("half a header", frame(text[:40]))
    yield case("a member twice", frame(text[:-1] + ',"code":9999}'))
    yield case("serialize type 2", frame(text, kind=2))
    yield case("serialize type 255", frame(text, kind=255))
    yield case("4 bytes", b"\0\0\0\x04")
    yield case("8 bytes", b"\0\0\0\x04\0\0\0\0")
    yield case("11 bytes of a frame, then the rest", plain()[:11], plain()[11:])
    yield case("byte by byte", *(plain()[at : at + 1] for at in range(len(plain()))))
    yield case("a frame and a half", plain() + plain(opaque=6)[:20], plain(opaque=6)[20:])
    yield case("a short frame on a used connection", plain(), AWAIT_ANSWER, b"\0\0\0\x04\0\0\0\0")
    yield case("length 0", b"\0\0\0\0" + b"\0" * 12)
    yield case("length 0 on a used connection", plain(), AWAIT_ANSWER, b"\0\0\0\0")
    yield case("length 3 on a used connection", plain(), AWAIT_ANSWER, b"\0\0\0\x03\0\0\0")
    yield case("length negative", b"\xff\xff\xff\xff" + b"\0" * 12)
    yield case("length too large", b"\x01\0\0\0" + b"\0" * 12)
    yield case("header longer than its frame", b"\0\0\0\x20\0\0\0\xff" + b"\0" * 28)
    yield from _binary_framing(case)


def _binary_framing(case: Any) -> Iterator[Frames]:
    def binary(
        ext: bytes,
        *,
        code: int = 14,
        language: int = 0,
        remark: bytes = b"\0\0\0\0",
        ext_size: int | None = None,
        behind: bytes = b"",
    ) -> bytes:
        size = len(ext) if ext_size is None else ext_size
        data = code.to_bytes(2, "big", signed=True) + bytes([language]) + (479).to_bytes(2, "big")
        data += (5).to_bytes(4, "big") + (0).to_bytes(4, "big") + remark
        data += size.to_bytes(4, "big", signed=True) + ext + behind
        whole = (4 + len(data)).to_bytes(4, "big") + (1 << 24 | len(data)).to_bytes(4, "big")
        return whole + data

    def entry(
        name: str, value: str, *, name_size: int | None = None, size: int | None = None
    ) -> bytes:
        key, text = name.encode(), value.encode()
        name_bytes = len(key) if name_size is None else name_size
        bytes_ = len(text) if size is None else size
        return (
            name_bytes.to_bytes(2, "big", signed=True)
            + key
            + bytes_.to_bytes(4, "big", signed=True)
            + text
        )

    good = entry("consumerGroup", "F") + entry("topic", "F") + entry("queueId", "0")
    yield case("binary", binary(good))
    yield case("binary, unknown code", binary(good, code=9999))
    yield case("binary, negative code", binary(good, code=-1))
    yield case("binary, language 99", binary(good, language=99))
    yield case("binary, with a remark", binary(good, remark=b"\0\0\0\x02hi"))
    yield case("binary, remark of negative length", binary(good, remark=b"\xff\xff\xff\xff"))
    yield case("binary, remark too long", binary(good, remark=b"\0\0\xff\xff"))
    yield case("binary, no ext fields", binary(b""))
    yield case("binary, ext of negative length", binary(b"", ext_size=-1))
    yield case("binary, ext too long", binary(good, ext_size=9999))
    yield case("binary, ext shorter than its entries", binary(good, ext_size=len(good) - 3))
    yield case("binary, key of negative length", binary(entry("a", "b", name_size=-1) + good))
    yield case("binary, value of negative length", binary(entry("a", "b", size=-1) + good))
    yield case("binary, value too long", binary(entry("a", "b", size=9999)))
    yield case("binary, an empty value", binary(entry("a", "") + good))
    yield case("binary, an empty key", binary(entry("", "b") + good))
    yield case("binary, bytes behind", binary(good, behind=b"xyz"))
    yield case(
        "binary, a number that is none",
        binary(entry("consumerGroup", "F") + entry("topic", "F") + entry("queueId", "x")),
    )


# Topics and groups


def _topic(name: str, **changes: object) -> dict[str, object]:
    return {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": 2,
        "writeQueueNums": 2,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": "false",
    } | changes


def _topics() -> Iterator[Step]:
    yield from _series("17", 17, _topic("T17"))
    yield _one("17/again", 17, _topic("T17"))
    for topic in ("T", "P", "other"):
        yield _one(f"17/{topic}", 17, _topic(topic))
    yield _one("17/order", 17, _topic("T17order", order="true"))
    yield _one("17/flagged", 17, _topic("flagged", topicSysFlag=3))
    yield _one("17/perm 0", 17, _topic("T17perm0", perm=0))
    yield _one("17/perm 2", 17, _topic("writeonly", perm=2))
    yield _one("17/perm 4", 17, _topic("readonly", perm=4))
    yield _one("17/perm 99", 17, _topic("T17perm99", perm=99))
    yield _one("17/perm -1", 17, _topic("T17perm-1", perm=-1))
    yield _one("17/queues 0", 17, _topic("T17q0", readQueueNums=0, writeQueueNums=0))
    yield _one("17/queues -1", 17, _topic("T17q-1", readQueueNums=-1, writeQueueNums=-1))
    yield _one("17/filter type of another name", 17, _topic("T17f", topicFilterType="BOTH"))
    yield _one("17/filter type in lower case", 17, _topic("T17f", topicFilterType="single_tag"))
    yield _one("17/MULTI_TAG", 17, _topic("T17multi", topicFilterType="MULTI_TAG"))
    for what, name in (
        ("empty", ""),
        ("blank", " "),
        ("illegal", "a b"),
        ("slash", "a/b"),
        ("percent", "%a"),
        ("not ASCII", "ü"),
        ("127 characters", "t" * 127),
        ("128 characters", "t" * 128),
        ("TBW102", "TBW102"),
        ("SELF_TEST_TOPIC", "SELF_TEST_TOPIC"),
        ("SCHEDULE_TOPIC_XXXX", "SCHEDULE_TOPIC_XXXX"),
        ("RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_HALF_TOPIC"),
        ("rmq_sys_ of one's own", "rmq_sys_mine"),
        ("retry", "%RETRY%G17"),
        ("dead letters", "%DLQ%G17"),
    ):
        yield _one(f"17/name {what}", 17, _topic(name))
    for what, text in (
        ("message.type", "+message.type=FIFO"),
        ("unknown", "+nosuch=1"),
        ("without plus", "message.type=FIFO"),
        ("value unknown", "+message.type=KLINGON"),
        ("delete on creation", "-message.type"),
        ("cleanup.policy", "+cleanup.policy=DELETE"),
        ("twice", "+message.type=FIFO,+message.type=DELAY"),
        ("blank", " "),
    ):
        yield _one(
            f"17/attributes {what}",
            17,
            _topic(f"T17a-{what.split()[0].replace('.', '-')}", attributes=text),
        )
    config = {
        "topicName": "T18",
        "readQueueNums": 3,
        "writeQueueNums": 3,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
        "attributes": {},
    }
    yield _one("18", 18, body=_json({"topicConfigList": [config, config | {"topicName": "T18b"}]}))
    yield _one("18/again", 18, body=_json({"topicConfigList": [config]}))
    yield _one("18/no body", 18)
    yield _one("18/no list", 18, body="{}")
    yield _one("18/empty list", 18, body='{"topicConfigList":[]}')
    yield _one("18/no JSON", 18, body="x")
    yield _one(
        "18/an illegal name", 18, body=_json({"topicConfigList": [config | {"topicName": "a b"}]})
    )
    yield _one("18/no name", 18, body='{"topicConfigList":[{"perm":6}]}')
    for topic in ("T17", "T18", "T17multi", "T17order", "nosuch", "", "TBW102"):
        yield _one(f"351/{topic or 'empty'}", 351, {"topic": topic})
    yield from _series("351", 351, {"topic": "T17"})
    yield _one("351/logical", 351, {"topic": "T17", "lo": "true"})
    for topic in ("T17", "nosuch", "", "TBW102", "T17q0"):
        yield _one(f"202/{topic or 'empty'}", 202, {"topic": topic})
    yield from _series("202", 202, {"topic": "T17"})
    yield _one("305", 305)


def _group(name: str, **changes: object) -> dict[str, object]:
    return {"groupName": name} | changes


def _groups() -> Iterator[Step]:
    yield _one("200", 200, body=_json(_group("G200")))
    yield _one("200/again", 200, body=_json(_group("G200")))
    yield _one(
        "200/all fields",
        200,
        body=_json(
            _group(
                "G200all",
                consumeEnable=True,
                consumeFromMinEnable=False,
                consumeBroadcastEnable=False,
                consumeMessageOrderly=True,
                retryQueueNums=2,
                retryMaxTimes=3,
                brokerId=1,
                whichBrokerWhenConsumeSlowly=2,
                notifyConsumerIdsChangedEnable=False,
                groupSysFlag=1,
                consumeTimeoutMinute=20,
            )
        ),
    )
    yield _one("200/no body", 200)
    yield _one("200/no JSON", 200, body="x")
    yield _one("200/empty object", 200, body="{}")
    yield _one("200/a list", 200, body="[]")
    yield _one("200/null", 200, body="null")
    yield _one("200/empty name", 200, body=_json(_group("")))
    yield _one("200/illegal name", 200, body=_json(_group("a b")))
    yield _one("200/256 characters", 200, body=_json(_group("g" * 256)))
    yield _one("200/consumption off", 200, body=_json(_group("Goff", consumeEnable=False)))
    yield _one(
        "200/broadcast off", 200, body=_json(_group("Gnobroadcast", consumeBroadcastEnable=False))
    )
    yield _one("200/flagged", 200, body=_json(_group("Gflag", groupSysFlag=1)))
    yield _one("200/no retries", 200, body=_json(_group("Gnoretry", retryQueueNums=0)))
    yield _one("200/number as text", 200, body=_json(_group("G200text", retryMaxTimes="5")))
    yield _one("200/number that is none", 200, body=_json(_group("G200bad", retryMaxTimes="abc")))
    yield _one("225", 225, body=_json({"groupConfigList": [_group("G225a"), _group("G225b")]}))
    yield _one("225/no body", 225)
    yield _one("225/no list", 225, body="{}")
    yield _one("225/empty list", 225, body='{"groupConfigList":[]}')
    yield _one("225/null list", 225, body='{"groupConfigList":null}')
    yield _one("225/empty name", 225, body=_json({"groupConfigList": [_group("")]}))
    yield _one("225/no name", 225, body='{"groupConfigList":[{}]}')
    for group in (
        "G200",
        "G200all",
        "G200text",
        "Gunseen",
        "",
        "a b",
        "g" * 256,
        "CID_ONSAPI_OWNER",
    ):
        yield _one(f"352/{group[:20] or 'empty'}", 352, {"group": group})
    yield from _series("352", 352, {"group": "G200"})
    yield from _series("353", 353, {"group": "G200", "topic": "T17", "readable": "false"})
    yield _one("353/again", 353, {"group": "G200", "topic": "T17"})
    yield _one("353/readable again", 353, {"group": "G200", "topic": "T17", "readable": "true"})
    yield _one("353/unknown group", 353, {"group": "Gnever", "topic": "T17", "readable": "true"})
    yield _one("353/unknown topic", 353, {"group": "G200", "topic": "nosuch", "readable": "false"})


# Sending


def _long(**changes: object) -> dict[str, object]:
    ext: dict[str, object] = {
        "producerGroup": "producers",
        "topic": "T",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4,
        "queueId": 0,
        "sysFlag": 0,
        "bornTimestamp": 1_700_000_000_000,
        "flag": 7,
        "properties": _props(UNIQ_KEY=UNIQUE + "01", KEYS="k1", TAGS="A"),
        "reconsumeTimes": 0,
        "unitMode": "false",
        "maxReconsumeTimes": 3,
        "batch": "false",
    }
    return ext | changes


def _short(**changes: object) -> dict[str, object]:
    ext: dict[str, object] = {
        "a": "producers",
        "b": "T",
        "c": "TBW102",
        "d": 4,
        "e": 0,
        "f": 0,
        "g": 1_700_000_000_000,
        "h": 7,
        "i": _props(UNIQ_KEY=UNIQUE + "02", KEYS="k1 k2", TAGS="A"),
        "j": 0,
        "k": "false",
        "l": 3,
        "m": "false",
        "n": "broker-a",
    }
    return {name: value for name, value in (ext | changes).items() if value is not None}


def _sending() -> Iterator[Step]:
    yield from _series("10", 10, _long(), "hello")
    yield from _series("310", 310, _short(), "hello")
    for name, changes, body in (
        ("no body", {}, ""),
        ("no properties", {"i": ""}, "x"),
        ("no unique key", {"i": _props(TAGS="B", own="1")}, "x"),
        ("properties that are none", {"i": "nonsense"}, "x"),
        ("an absent topic", {"b": "made"}, "x"),
        ("an absent topic, 2 queues", {"b": "made2", "d": 2, "e": 1}, "x"),
        ("an absent topic, 99 queues", {"b": "made99", "d": 99}, "x"),
        ("an absent topic, 0 queues", {"b": "made0", "d": 0}, "x"),
        ("an absent topic after another one", {"b": "madelike", "c": "T"}, "x"),
        ("an absent topic after an absent one", {"b": "madeabsent", "c": "nosuch"}, "x"),
        ("an absent topic after none", {"b": "madenone", "c": ""}, "x"),
        ("empty topic", {"b": ""}, "x"),
        ("blank topic", {"b": " "}, "x"),
        ("illegal topic", {"b": "a b"}, "x"),
        ("topic not ASCII", {"b": "ü"}, "x"),
        ("topic too long", {"b": "t" * 128}, "x"),
        ("TBW102", {"b": "TBW102"}, "x"),
        ("SCHEDULE_TOPIC_XXXX", {"b": "SCHEDULE_TOPIC_XXXX"}, "x"),
        ("half topic", {"b": "RMQ_SYS_TRANS_HALF_TOPIC"}, "x"),
        ("op topic", {"b": "RMQ_SYS_TRANS_OP_HALF_TOPIC"}, "x"),
        ("trace topic", {"b": "RMQ_SYS_TRACE_TOPIC"}, "x"),
        ("self test topic", {"b": "SELF_TEST_TOPIC"}, "x"),
        ("broker's own topic", {"b": "broker-a"}, "x"),
        ("a topic that may only be read", {"b": "readonly"}, "x"),
        ("a topic without queues", {"b": "T17q0"}, "x"),
        ("an ordered topic", {"b": "T17order"}, "x"),
        ("queue beyond", {"e": 2}, "x"),
        ("queue far beyond", {"e": 99}, "x"),
        ("queue -1", {"e": -1, "b": "made0x", "d": 1}, "x"),
        ("retry topic of an unseen group", {"b": "%RETRY%Gsent"}, "x"),
        ("retry topic", {"b": "%RETRY%G200"}, "x"),
        ("retry topic, retried once", {"b": "%RETRY%G200", "j": 1}, "x"),
        ("retry topic, retried too often", {"b": "%RETRY%G200", "j": 99, "l": 2}, "x"),
        ("dead letter topic", {"b": "%DLQ%Gdead"}, "x"),
        ("delay level 1", {"b": "other", "i": _props(UNIQ_KEY=UNIQUE + "03", DELAY=1)}, "x"),
        ("delay level 18", {"i": _props(UNIQ_KEY=UNIQUE + "04", DELAY=18)}, "x"),
        ("delay level 99", {"i": _props(UNIQ_KEY=UNIQUE + "05", DELAY=99)}, "x"),
        ("delay level 0", {"i": _props(UNIQ_KEY=UNIQUE + "06", DELAY=0)}, "x"),
        ("delay level -1", {"i": _props(UNIQ_KEY=UNIQUE + "07", DELAY=-1)}, "x"),
        ("delay level no number", {"i": _props(UNIQ_KEY=UNIQUE + "08", DELAY="abc")}, "x"),
        ("delay level empty", {"i": _props(UNIQ_KEY=UNIQUE + "09", DELAY="")}, "x"),
        ("timer no number", {"i": _props(UNIQ_KEY=UNIQUE + "10", TIMER_DELAY_SEC="abc")}, "x"),
        ("timer too far", {"i": _props(UNIQ_KEY=UNIQUE + "11", TIMER_DELAY_SEC=10_000_000)}, "x"),
        ("properties of 32500 bytes", {"i": _props(UNIQ_KEY=UNIQUE + "12", own="x" * 32_450)}, "x"),
        ("properties of 32767 bytes", {"i": _props(UNIQ_KEY=UNIQUE + "13", own="x" * 32_720)}, "x"),
        ("properties of 40000 bytes", {"i": _props(UNIQ_KEY=UNIQUE + "14", own="x" * 40_000)}, "x"),
        ("unknown flags", {"f": 0x4000_0000}, "x"),
        ("transaction commit flag", {"f": 8}, "x"),
        ("unit mode", {"b": "madeunit", "k": "true"}, "x"),
        ("boolean yes", {"k": "yes", "m": "yes"}, "x"),
        ("sent back by order", {"i": _props(UNIQ_KEY=UNIQUE + "15", POP_CK="a b")}, "x"),
        (
            "two of a property",
            {"i": "UNIQ_KEY\x01" + UNIQUE + "16\x02own\x011\x02own\x012\x02"},
            "x",
        ),
        ("property without end", {"i": "UNIQ_KEY\x01" + UNIQUE + "17"}, "x"),
        ("property without value", {"i": "UNIQ_KEY\x01" + UNIQUE + "18\x02own\x02"}, "x"),
        (
            "all left out that may be",
            {
                "a": None,
                "c": None,
                "d": None,
                "j": None,
                "k": None,
                "l": None,
                "m": None,
                "n": None,
            },
            "x",
        ),
        ("a fraction", {"b": "other", "e": "0.0"}, "x"),
        ("absent topic, no topic to follow", {"b": "madenoc", "c": None}, "x"),
        ("absent topic, no number of queues", {"b": "madenod", "d": None}, "x"),
        ("absent topic, all left out", {"b": "madeout", "a": None, "c": None, "d": None}, "x"),
        ("written only", {"b": "writeonly"}, "x"),
        ("no permission at all", {"b": "T17perm0"}, "x"),
        ("a flagged topic", {"b": "flagged", "i": _props(UNIQ_KEY=UNIQUE + "19", TAGS="A")}, "x"),
    ):
        yield _one(f"310/{name}", 310, _short(**changes), body)
    yield _one("10/illegal topic", 10, _long(topic="a b"), "x")
    yield _one("10/queue beyond", 10, _long(queueId=9), "x")
    yield _one("10/half topic", 10, _long(topic="RMQ_SYS_TRANS_HALF_TOPIC"), "x")
    yield _one("310/in another version", 310, _short(), "x", version=300)
    yield _one("310/too large a body", 310, _short(b="other"), "x" * (4 * 1024 * 1024 + 1))
    for number in range(6):
        key = f"{UNIQUE}{20 + number}"
        yield _one(
            f"310/P {number}",
            310,
            _short(
                b="P", e=0, i=_props(UNIQ_KEY=key, KEYS=f"p{number} all", TAGS="AB"[number % 2])
            ),
            f"p{number}",
        )


def _batch(*parts: tuple[str, str]) -> str:
    data = b""
    for body, properties in parts:
        text, content = properties.encode(), body.encode()
        size = 22 + len(content) + len(text)
        data += size.to_bytes(4, "big") + b"\0" * 4 + zlib.crc32(b"").to_bytes(4, "big")
        data += b"\0" * 4 + len(content).to_bytes(4, "big") + content
        data += len(text).to_bytes(2, "big") + text
    return data.decode("latin-1")


def _batches() -> Iterator[Step]:
    own = _props(UNIQ_KEY=UNIQUE + "30", WAIT="true")
    parts = _batch(
        ("one", _props(UNIQ_KEY=UNIQUE + "31", KEYS="b1", TAGS="A")),
        ("two", _props(UNIQ_KEY=UNIQUE + "32", KEYS="b2", TAGS="B")),
    )
    bare = _batch(("one", ""), ("two", ""))
    batch = {"b": "B", "m": "true"}
    yield _one("17/B", 17, _topic("B"))
    for name, changes, body in (
        ("", {"i": own}, parts),
        ("without a key of its own", {"i": _props(WAIT="true")}, parts),
        ("without properties", {"i": ""}, bare),
        ("without properties at all", {"i": None}, bare),
        ("of one", {"i": own}, _batch(("one", ""))),
        ("no body", {"i": own}, ""),
        ("with a delay", {"i": own + _props(DELAY=3)}, parts),
        ("with a delay in a member", {"i": own, "e": 1}, _batch(("one", _props(DELAY=3)))),
        ("to a retry topic", {"i": own, "b": "%RETRY%G200"}, parts),
        ("illegal topic", {"i": own, "b": "a b"}, parts),
        ("queue beyond", {"i": own, "e": 99}, parts),
        ("properties of 32767 bytes", {"i": _props(own="x" * 32_740)}, parts),
        ("properties of 40000 bytes", {"i": _props(own="x" * 40_000)}, parts),
        ("an absent topic", {"i": own, "b": "madebatch"}, parts),
        ("queue -1", {"i": own, "b": "madebatch1", "d": 1, "e": -1}, parts),
        ("nonsense", {"i": own}, "nonsense"),
        ("half a member", {"i": own}, parts[:20]),
    ):
        label = f"320/{name}" if name else "320"
        yield _one(label, 320, _short(**batch | changes), body)
    yield _one("310/batch", 310, _short(**batch, i=own), parts)
    yield _one("320/single", 320, _short(b="B", i=own), "x")
    yield _one("10/batch", 10, _long(topic="B", batch="true", properties=own), parts)


# Pulling


def _pull(**changes: object) -> dict[str, object]:
    ext: dict[str, object] = {
        "consumerGroup": "GP",
        "topic": "P",
        "queueId": 0,
        "queueOffset": 0,
        "maxMsgNums": 32,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subscription": "*",
        "subVersion": 0,
        "expressionType": "TAG",
    }
    return {name: value for name, value in (ext | changes).items() if value is not None}


def _pulling() -> Iterator[Step]:
    yield from _series("11", 11, _pull(maxMsgBytes=1000, requestSource=-1))
    yield from _series("361", 361, _pull())
    for name, changes in (
        ("one message", {"maxMsgNums": 1}),
        ("maxMsgNums 0", {"maxMsgNums": 0}),
        ("maxMsgNums -1", {"maxMsgNums": -1}),
        ("from the middle", {"queueOffset": 3}),
        ("tag A", {"subscription": "A"}),
        ("tag A, another group", {"subscription": "A", "consumerGroup": "GPtag"}),
        ("tag A or B", {"subscription": "A || B"}),
        ("tag of nobody", {"subscription": "nobody"}),
        ("only bars", {"subscription": "||"}),
        ("at the end", {"queueOffset": 6}),
        ("beyond the end", {"queueOffset": 99}),
        ("before the beginning", {"queueOffset": -1}),
        ("an empty queue", {"queueId": 1}),
        ("an empty queue, offset 5", {"queueId": 1, "queueOffset": 5}),
        ("queue beyond", {"queueId": 9}),
        ("queue -1", {"queueId": -1}),
        ("unknown topic", {"topic": "nosuch"}),
        ("empty topic", {"topic": ""}),
        ("blank topic", {"topic": " "}),
        ("illegal topic", {"topic": "a b"}),
        ("a topic that may only be written", {"topic": "writeonly"}),
        ("a topic without queues", {"topic": "T17q0"}),
        ("a flagged topic", {"topic": "flagged"}),
        ("a flagged group", {"consumerGroup": "Gflag"}),
        ("unseen group", {"consumerGroup": "Gpulled"}),
        ("illegal group", {"consumerGroup": "a b"}),
        ("too long a group", {"consumerGroup": "g" * 256}),
        ("a group that may not consume", {"consumerGroup": "Goff"}),
        ("with a commit", {"sysFlag": 5, "commitOffset": 2, "consumerGroup": "GPcommit"}),
        ("with a commit of -1", {"sysFlag": 5, "commitOffset": -1, "consumerGroup": "GPminus"}),
        ("without subscription, nobody known", {"sysFlag": 0, "consumerGroup": "GPnobody"}),
        ("without subscription, known by the pulls before", {"sysFlag": 0}),
        ("without subscription, another topic", {"sysFlag": 0, "topic": "T"}),
        ("without subscription, later version", {"sysFlag": 0, "subVersion": 99}),
        ("class filter", {"sysFlag": 12}),
        ("a fraction", {"queueOffset": "0.0"}),
        ("an unknown kind of expression", {"expressionType": "KLINGON", "subscription": "a"}),
        ("SQL92", {"expressionType": "SQL92", "subscription": "a = 1"}),
    ):
        yield _one(f"11/{name}", 11, _pull(**changes))
    yield _one("353/for a pull", 353, {"group": "GP", "topic": "P", "readable": "false"})
    yield _one("11/forbidden by group and topic", 11, _pull(sysFlag=0))
    yield _one("11/forbidden by group and topic, with subscription", 11, _pull())
    yield _one("353/for a pull again", 353, {"group": "GP", "topic": "P", "readable": "true"})
    yield _one(
        "14/after a pull's commit", 14, {"consumerGroup": "GPcommit", "topic": "P", "queueId": 0}
    )
    yield _one(
        "14/after a pull's commit of -1",
        14,
        {"consumerGroup": "GPminus", "topic": "P", "queueId": 0},
    )
    yield _one("25/no reading", 25, body="brokerPermission=2\n")
    yield _one("11/a broker that may not be read", 11, _pull())
    yield _one("25/reading again", 25, body="brokerPermission=6\n")
    yield _one("25/no writing", 25, body="brokerPermission=4\n")
    yield _one("310/a broker that may not be written", 310, _short(), "x")
    yield _one(
        "310/a broker that may not be written, ordered topic", 310, _short(b="T17order"), "x"
    )
    yield _one("25/writing again", 25, body="brokerPermission=6\n")


# Offsets and queries


def _offsets() -> Iterator[Step]:
    commit = {"consumerGroup": "GO", "topic": "P", "queueId": 0, "commitOffset": 3}
    yield _one("200/GO", 200, body=_json(_group("GO")))
    yield from _series("15", 15, commit)
    for name, changes in (
        ("unseen group", {"consumerGroup": "GOunseen"}),
        ("empty group", {"consumerGroup": ""}),
        ("unknown topic", {"topic": "nosuch"}),
        ("empty topic", {"topic": ""}),
        ("queue beyond", {"queueId": 9}),
        ("queue -1", {"queueId": -1}),
        ("offset -1", {"commitOffset": -1}),
        ("backwards", {"commitOffset": 1}),
        ("far ahead", {"commitOffset": 9999}),
        ("a fraction", {"commitOffset": "1.5"}),
    ):
        yield _one(f"15/{name}", 15, commit | changes)
    asked: dict[str, object] = {"consumerGroup": "GO", "topic": "P", "queueId": 0}
    yield from _series("14", 14, asked)
    for what, other in (
        ("zero if not found", {"setZeroIfNotFound": "true"}),
        ("not committed", {"consumerGroup": "GOother"}),
        (
            "not committed, zero if not found",
            {"consumerGroup": "GOother", "setZeroIfNotFound": "true"},
        ),
        ("not committed, no zero", {"consumerGroup": "GOother", "setZeroIfNotFound": "false"}),
        ("empty queue", {"consumerGroup": "GOother", "queueId": 1}),
        (
            "empty queue, zero if not found",
            {"consumerGroup": "GOother", "queueId": 1, "setZeroIfNotFound": "true"},
        ),
        ("unknown topic", {"topic": "nosuch"}),
        ("illegal group", {"consumerGroup": "a b"}),
        ("empty group", {"consumerGroup": ""}),
    ):
        yield _one(f"14/{what}", 14, asked | other)
    yield _one("352/not made by 14", 201 + 151, {"group": "GOother"})
    place: dict[str, object] = {"topic": "P", "queueId": 0}
    for code in (30, 31, 32):
        yield from _series(f"{code}", code, place)
        yield _one(f"{code}/empty queue", code, {"topic": "P", "queueId": 1})
        yield _one(f"{code}/queue beyond", code, {"topic": "P", "queueId": 9})
        yield _one(f"{code}/queue -1", code, {"topic": "P", "queueId": -1})
        yield _one(f"{code}/unknown topic", code, {"topic": "nosuch", "queueId": 0})
    yield from _series("29", 29, place | {"timestamp": 0, "boundaryType": "LOWER"})
    at: Mapping[str, object]
    for what, at in (
        ("upper", {"boundaryType": "UPPER"}),
        ("boundary in lower case", {"boundaryType": "upper"}),
        ("boundary unknown", {"boundaryType": "KLINGON"}),
        ("in the future", {"timestamp": 4_000_000_000_000}),
        ("in the future, upper", {"timestamp": 4_000_000_000_000, "boundaryType": "UPPER"}),
        ("negative", {"timestamp": -1}),
        ("unknown topic", {"topic": "nosuch"}),
        ("queue beyond", {"queueId": 9}),
    ):
        yield _one(f"29/{what}", 29, place | {"timestamp": 0} | at)


def _queries() -> Iterator[Step]:
    asked = {
        "topic": "P",
        "key": "all",
        "maxNum": 64,
        "beginTimestamp": 0,
        "endTimestamp": 4_000_000_000_000,
    }
    yield from _series("12", 12, asked)
    for name, changes in (
        ("one", {"key": "p3"}),
        ("nobody has it", {"key": "nosuch"}),
        ("unknown topic", {"topic": "nosuch"}),
        ("maxNum 0", {"maxNum": 0}),
        ("maxNum 2", {"maxNum": 2}),
        ("maxNum -1", {"maxNum": -1}),
        ("long ago", {"endTimestamp": 1}),
        ("by unique key", {"key": UNIQUE + "22", "_UNIQUE_KEY_QUERY": "true"}),
        ("by unique key, as a key", {"key": UNIQUE + "22"}),
        ("by unique key, nobody has it", {"key": "nosuch", "_UNIQUE_KEY_QUERY": "true"}),
        ("empty key", {"key": ""}),
        ("empty topic", {"topic": ""}),
    ):
        yield _one(f"12/{name}", 12, asked | changes)
    yield from _series("33", 33, {"offset": "$offset(310/P 0)", "topic": "P"})
    yield _one("33/negative", 33, {"offset": -1})
    yield _one("33/beyond the end", 33, {"offset": 2**40})
    yield _one("33/another topic's name", 33, {"offset": "$offset(310/P 1)", "topic": "nosuch"})
    units = {"topic": "P", "queueId": 0, "index": 0, "count": 2, "consumerGroup": "GP"}
    yield from _series("321", 321, units)
    for what, other in (
        ("no group", {"consumerGroup": None}),
        ("beyond", {"index": 99}),
        ("negative", {"index": -1}),
        ("count 0", {"count": 0}),
        ("count -1", {"count": -1}),
        ("unknown topic", {"topic": "nosuch"}),
        ("queue beyond", {"queueId": 9}),
        ("group without subscription", {"consumerGroup": "GO"}),
        ("a group that wants one tag", {"consumerGroup": "GPtag"}),
    ):
        changed = {n: v for n, v in (units | other).items() if v is not None}
        yield _one(f"321/{what}", 321, changed)


def _send_back() -> Iterator[Step]:
    back = {
        "offset": "$offset(310/P 0)",
        "group": "GB",
        "delayLevel": 0,
        "originMsgId": "X",
        "originTopic": "P",
        "unitMode": "false",
        "maxReconsumeTimes": 16,
    }
    yield from _series("36", 36, back)
    for name, changes in (
        ("illegal group", {"group": "a b"}),
        ("empty group", {"group": ""}),
        ("no message there", {"offset": 2**40}),
        ("negative offset", {"offset": -1}),
        ("delay level 99", {"delayLevel": 99}),
        ("to the dead letters", {"delayLevel": -1}),
        ("a group without retries", {"group": "Gnoretry"}),
        ("no more tries", {"maxReconsumeTimes": 0}),
    ):
        yield _one(f"36/{name}", 36, back | changes)
    yield _one("36/in an old version", 36, back, version=100)


# Clients


def _consumer(group: str, *topics: str, **changes: object) -> dict[str, object]:
    return {
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "consumeType": "CONSUME_PASSIVELY",
        "groupName": group,
        "messageModel": "CLUSTERING",
        "subscriptionDataSet": [
            {"topic": topic, "subString": "*", "subVersion": 1} for topic in topics
        ],
        "unitMode": False,
    } | changes


def _beat(client: str, *consumers: object, producers: Sequence[str] = (), **more: object) -> str:
    body: dict[str, object] = {
        "clientID": client,
        "consumerDataSet": list(consumers),
        "producerDataSet": [{"groupName": group} for group in producers],
    }
    return _json(body | more)


def _clients() -> Iterator[Step]:
    yield _one("34", 34, body=_beat("c1", _consumer("GC", "P"), producers=["PG"]), by="consumer")
    yield _one(
        "34/again", 34, body=_beat("c1", _consumer("GC", "P"), producers=["PG"]), by="consumer"
    )
    known = {"consumerGroup": "GC", "sysFlag": 0, "subscription": None, "subVersion": 1}
    for name, changes in (
        ("", {}),
        ("later version", {"subVersion": 99}),
        ("another topic", {"topic": "T"}),
        ("subscription that is not looked at", {"subscription": "nobody"}),
        ("at the end", {"queueOffset": 6}),
    ):
        label = f"11/known by heartbeat, {name}" if name else "11/known by heartbeat"
        yield _one(label, 11, _pull(**known | changes))
    yield _one(
        "353/for a pull of a known group", 353, {"group": "GC", "topic": "P", "readable": "false"}
    )
    yield _one("11/known by heartbeat, forbidden", 11, _pull(**known))
    yield _one(
        "353/for a pull of a known group again",
        353,
        {"group": "GC", "topic": "P", "readable": "true"},
    )
    yield _one(
        "34/broadcasting where it is off",
        34,
        body=_beat("c1", _consumer("Gnobroadcast", "P", messageModel="BROADCASTING")),
    )
    yield _one(
        "11/broadcasting where it is off", 11, _pull(**known | {"consumerGroup": "Gnobroadcast"})
    )
    yield _one("34/no body", 34)
    yield _one("34/no JSON", 34, body="x")
    yield _one("34/empty object", 34, body="{}")
    yield _one("34/without clientID", 34, body=_json({"consumerDataSet": [_consumer("GCx", "P")]}))
    yield _one(
        "34/without clientID, producers", 34, body='{"producerDataSet":[{"groupName":"PGx"}]}'
    )
    yield _one(
        "34/without clientID and groups", 34, body='{"consumerDataSet":[],"producerDataSet":[]}'
    )
    yield _one("34/only clientID", 34, body='{"clientID":"c9"}')
    yield _one(
        "34/without groupName", 34, body=_beat("c2", _consumer("GCy", "P") | {"groupName": None})
    )
    yield _one(
        "34/producer without groupName", 34, body=_json({"clientID": "c2", "producerDataSet": [{}]})
    )
    yield _one("34/empty groupName", 34, body=_beat("c2", _consumer("", "P")))
    yield _one(
        "34/without topic",
        34,
        body=_beat("c2", _consumer("GCz", subscriptionDataSet=[{"subString": "*"}])),
    )
    yield _one(
        "34/without subString",
        34,
        body=_beat("c2", _consumer("GCs", subscriptionDataSet=[{"topic": "P"}])),
    )
    yield _one(
        "34/without subscriptions", 34, body=_beat("c2", _consumer("GCn", subscriptionDataSet=None))
    )
    yield _one(
        "34/without type, model and start",
        34,
        body=_json(
            {"clientID": "c2", "consumerDataSet": [{"groupName": "GCt", "subscriptionDataSet": []}]}
        ),
    )
    yield _one(
        "34/ordinals",
        34,
        body=_beat("c2", _consumer("GCo", "P", consumeType=1, messageModel=1, consumeFromWhere=0)),
    )
    yield _one(
        "34/unknown names",
        34,
        body=_beat(
            "c2",
            _consumer(
                "GCu",
                "P",
                consumeType="KLINGON",
                messageModel="KLINGON",
                consumeFromWhere="KLINGON",
            ),
        ),
    )
    yield _one(
        "34/broadcasting", 34, body=_beat("c2", _consumer("GCb", "P", messageModel="BROADCASTING"))
    )
    yield _one(
        "34/fingerprint", 34, body=_beat("c3", _consumer("GCf", "P"), heartbeatFingerprint=5)
    )
    yield _one(
        "34/fingerprint again", 34, body=_beat("c3", _consumer("GCf", "P"), heartbeatFingerprint=5)
    )
    yield _one(
        "34/fingerprint changed",
        34,
        body=_beat("c3", _consumer("GCf", "P", "T"), heartbeatFingerprint=6),
    )
    yield from _series("38", 38, {"consumerGroup": "GC"})
    yield _one("38/unseen group", 38, {"consumerGroup": "nosuch"})
    yield from _series("203", 203, {"consumerGroup": "GC"})
    yield _one("203/unseen group", 203, {"consumerGroup": "nosuch"})
    yield from _series("204", 204, {"producerGroup": "PG"})
    yield _one("204/unseen group", 204, {"producerGroup": "nosuch"})
    yield _one("328", 328)
    yield from _series("345", 345, {"group": "GC", "topic": "P"})
    yield _one("345/unseen group", 345, {"group": "nosuch", "topic": "P"})
    yield from _series("300", 300, {"topic": "P"})
    yield _one("300/unknown topic", 300, {"topic": "nosuch"})
    check = {
        "clientId": "c1",
        "group": "GC",
        "subscriptionData": {"topic": "P", "subString": "*", "expressionType": "TAG"},
    }
    yield _one("46", 46, body=_json(check))
    yield _one("46/no body", 46)
    yield _one("46/no JSON", 46, body="x")
    yield _one("46/no subscription", 46, body="{}")
    yield _one(
        "46/no type", 46, body=_json(check | {"subscriptionData": {"topic": "P", "subString": "*"}})
    )
    yield _one(
        "46/SQL92",
        46,
        body=_json(
            check
            | {"subscriptionData": {"topic": "P", "subString": "a = 1", "expressionType": "SQL92"}}
        ),
    )
    yield _one(
        "46/unknown type",
        46,
        body=_json(
            check
            | {"subscriptionData": {"topic": "P", "subString": "a", "expressionType": "KLINGON"}}
        ),
    )
    yield from _series("35", 35, {"clientID": "c2", "producerGroup": "PGx", "consumerGroup": "GCb"})
    yield _one(
        "35/another's groups", 35, {"clientID": "c9", "producerGroup": "PG", "consumerGroup": "GC"}
    )
    yield _one("38/after another left in its name", 38, {"consumerGroup": "GC"})


def _locks() -> Iterator[Step]:
    queue = {"brokerName": "broker-a", "queueId": 0, "topic": "P"}
    lock = {"clientId": "c1", "consumerGroup": "GL", "mqSet": [queue], "onlyThisBroker": False}
    for code in (41, 42):
        yield _one(f"{code}", code, body=_json(lock))
        yield _one(f"{code}/by another", code, body=_json(lock | {"clientId": "c2"}))
        yield _one(f"{code}/no body", code)
        yield _one(f"{code}/no JSON", code, body="x")
        yield _one(f"{code}/a list", code, body="[]")
        yield _one(f"{code}/null", code, body="null")
        yield _one(f"{code}/empty object", code, body="{}")
        yield _one(
            f"{code}/no client",
            code,
            body=_json({n: v for n, v in lock.items() if n != "clientId"}),
        )
        yield _one(
            f"{code}/no group",
            code,
            body=_json({n: v for n, v in lock.items() if n != "consumerGroup"}),
        )
        yield _one(f"{code}/no client and no group", code, body=_json({"mqSet": [queue]}))
        yield _one(f"{code}/no queues", code, body=_json(lock | {"mqSet": []}))
        yield _one(
            f"{code}/queues absent", code, body=_json({"clientId": "c1", "consumerGroup": "GL"})
        )
        yield _one(f"{code}/queues null", code, body=_json(lock | {"mqSet": None}))
        yield _one(
            f"{code}/empty texts", code, body=_json(lock | {"clientId": "", "consumerGroup": ""})
        )
        yield _one(f"{code}/a queue without members", code, body=_json(lock | {"mqSet": [{}]}))
        yield _one(f"{code}/only this broker", code, body=_json(lock | {"onlyThisBroker": True}))


def _progress() -> Iterator[Step]:
    yield _one(
        "15/progress", 15, {"consumerGroup": "GC", "topic": "P", "queueId": 0, "commitOffset": 4}
    )
    yield from _series("208", 208, {"consumerGroup": "GC", "topic": "P"})
    yield _one("208/unseen group", 208, {"consumerGroup": "nosuch"})
    yield _one("208/unknown topic", 208, {"consumerGroup": "GC", "topic": "nosuch"})
    yield _one("208/list", 208, {"consumerGroup": "GC", "topicList": "P;T;nosuch"})
    yield from _series("303", 303, {"topic": "P", "group": "GC"})
    yield _one("303/unknown topic", 303, {"topic": "nosuch", "group": "GC"})
    yield _one("303/unseen group", 303, {"topic": "P", "group": "nosuch"})
    yield _one("303/empty topic", 303, {"topic": "T17", "group": "GC"})
    yield from _series("343", 343, {"group": "GC"})
    yield _one("343/unseen group", 343, {"group": "nosuch"})
    yield _one("317/not ordered", 317, {"isOrder": "false"}, depth=2)
    yield _one("317/ordered", 317, {"isOrder": "true"})
    yield _one("317/no ext fields", 317, None, depth=2)
    yield _one("317/without isOrder", 317, {"other": "1"}, depth=2)
    yield _one("43", 43, depth=2)
    yield _one("45", 45, depth=1)
    yield _one("21", 21, depth=2)
    yield _one("201", 201, depth=2)


def _resets() -> Iterator[Step]:
    reset = {
        "topic": "P",
        "group": "GO",
        "timestamp": 0,
        "isForce": "true",
        "queueId": -1,
        "offset": -1,
    }
    yield from _series("222", 222, reset)
    for name, changes in (
        ("to the end", {"timestamp": -1}),
        ("one queue", {"queueId": 0, "offset": 2}),
        ("one queue, beyond its end by one", {"queueId": 0, "offset": 7}),
        ("one queue, beyond its end", {"queueId": 0, "offset": 99}),
        ("one queue, no offset", {"queueId": 0}),
        ("queue beyond", {"queueId": 9, "offset": 0}),
        ("unknown topic", {"topic": "nosuch"}),
        ("empty topic", {"topic": ""}),
        ("unseen group", {"group": "Greset"}),
        ("empty group", {"group": ""}),
        ("a topic without queues", {"topic": "T17q0"}),
    ):
        yield _one(f"222/{name}", 222, reset | changes)
    yield _one(
        "15/while a reset is pending",
        15,
        {"consumerGroup": "GO", "topic": "P", "queueId": 0, "commitOffset": 5},
    )
    yield _one("11/learns of the reset", 11, _pull(consumerGroup="GO", queueOffset=5))
    yield from _series("308", 308, {"topic": "P", "compareGroup": "GC"})
    yield _one("308/unknown topic", 308, {"topic": "nosuch", "compareGroup": "GC"})
    yield _one("308/unseen group", 308, {"topic": "P", "compareGroup": "nosuch"})
    yield from _series(
        "314", 314, {"srcGroup": "GC", "destGroup": "GClone", "topic": "P", "offline": "true"}
    )
    yield _one(
        "314/unseen group",
        314,
        {"srcGroup": "nosuch", "destGroup": "GClone2", "topic": "P", "offline": "true"},
    )
    yield _one(
        "314/unknown topic",
        314,
        {"srcGroup": "GC", "destGroup": "GClone3", "topic": "nosuch", "offline": "true"},
    )


def _relays() -> Iterator[Step]:
    yield from _series(
        "307", 307, {"consumerGroup": "GC", "clientId": "nosuch", "jstackEnable": "false"}
    )
    yield _one("307/unseen group", 307, {"consumerGroup": "nosuch", "clientId": "c1"})
    yield _one("307/online", 307, {"consumerGroup": "GC", "clientId": "c1"})
    ask = {
        "consumerGroup": "GC",
        "clientId": "c1",
        "msgId": "$id(310/P 0)",
        "topic": "P",
        "brokerName": "broker-a",
    }
    yield from _series("309", 309, ask)
    for name, changes in (
        ("unseen group", {"consumerGroup": "nosuch"}),
        ("absent client", {"clientId": "nosuch"}),
        ("a bad id", {"msgId": "x"}),
        ("an id of nothing", {"msgId": "7F00000100002A9F000000FFFFFFFFFF"}),
    ):
        yield _one(f"309/{name}", 309, ask | changes)
    yield from _series("223", 223, {"topic": "P", "group": "GC", "clientAddr": "c1"})
    yield _one("223/unseen group", 223, {"topic": "P", "group": "nosuch"})
    yield _one("223/absent client", 223, {"topic": "P", "group": "GC", "clientAddr": "nosuch"})


def _replies() -> Iterator[Step]:
    reply = _short(
        b="DefaultCluster_REPLY_TOPIC",
        i=_props(UNIQ_KEY=UNIQUE + "60", CORRELATION_ID="1", REPLY_TO_CLIENT="c1"),
    )
    yield from _series("325", 325, reply, "answer")
    yield _one(
        "325/nobody waits",
        325,
        reply | {"i": _props(CORRELATION_ID="1", REPLY_TO_CLIENT="nosuch")},
        "answer",
    )
    yield _one("325/says not who waits", 325, reply | {"i": _props(CORRELATION_ID="1")}, "answer")
    yield _one("325/no properties", 325, reply | {"i": ""}, "answer")
    yield _one("325/illegal topic", 325, reply | {"b": "a b"}, "answer")
    yield _one("325/no body", 325, reply)
    yield _one(
        "324",
        324,
        _long(
            topic="DefaultCluster_REPLY_TOPIC",
            properties=_props(CORRELATION_ID="1", REPLY_TO_CLIENT="c1"),
        ),
        "answer",
    )
    yield _one("324/no ext fields", 324, None, "answer")


def _assignment() -> Iterator[Step]:
    asked = {
        "clientId": "c1",
        "consumerGroup": "GC",
        "messageModel": "CLUSTERING",
        "strategyName": "AVG",
        "topic": "P",
    }
    yield _one("400", 400, body=_json(asked))
    for name, changes in (
        ("by circle", {"strategyName": "AVG_BY_CIRCLE"}),
        ("unknown strategy", {"strategyName": "KLINGON"}),
        ("broadcasting", {"messageModel": "BROADCASTING"}),
        ("unknown topic", {"topic": "nosuch"}),
        ("unseen group", {"consumerGroup": "nosuch"}),
        ("absent client", {"clientId": "nosuch"}),
        ("no strategy", {"strategyName": None}),
        ("no topic", {"topic": None}),
        ("no group", {"consumerGroup": None}),
        ("no client", {"clientId": None}),
        ("no model", {"messageModel": None}),
    ):
        yield _one(
            f"400/{name}",
            400,
            body=_json({n: v for n, v in (asked | changes).items() if v is not None}),
        )
    yield _one("400/no body", 400)
    yield _one("400/no JSON", 400, body="x")
    mode = {"consumerGroup": "GC", "mode": "PULL", "popShareQueueNum": 0, "topic": "P"}
    yield _one("401", 401, body=_json(mode))
    for name, changes in (
        ("retry topic", {"topic": "%RETRY%GC"}),
        ("unknown topic", {"topic": "nosuch"}),
        ("unseen group", {"consumerGroup": "nosuch"}),
        ("no topic", {"topic": None}),
        ("no group", {"consumerGroup": None}),
        ("no mode", {"mode": None}),
        ("unknown mode", {"mode": "KLINGON"}),
    ):
        yield _one(
            f"401/{name}",
            401,
            body=_json({n: v for n, v in (mode | changes).items() if v is not None}),
        )
    yield _one("401/no body", 401)
    yield _one("402", 402)


def _status() -> Iterator[Step]:
    yield _one("26", 26, depth=2)
    yield _one("28", 28, depth=1)
    for name, body in (
        ("known", "fileReservedTime=48\n"),
        ("no body", ""),
        ("garbage", "nonsense"),
        ("unknown key", "nosuch=1\n"),
        ("bad number", "fileReservedTime=abc\n"),
        ("bad boolean", "slaveReadEnable=abc\n"),
        ("black list", "rocketmqHome=x\n"),
        ("black list brokerConfigPath", "brokerConfigPath=x\n"),
    ):
        yield _one(f"25/{name}", 25, body=body)
    yield from _series("315", 315, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "P"}, depth=2)
    for name, stats in (
        ("unknown name", {"statsName": "KLINGON", "statsKey": "P"}),
        ("unknown key", {"statsName": "TOPIC_PUT_NUMS", "statsKey": "nosuch"}),
        ("size", {"statsName": "TOPIC_PUT_SIZE", "statsKey": "P"}),
        ("broker", {"statsName": "BROKER_PUT_NUMS", "statsKey": "DefaultCluster"}),
        ("group", {"statsName": "GROUP_GET_NUMS", "statsKey": "P@GP"}),
        ("group size", {"statsName": "GROUP_GET_SIZE", "statsKey": "P@GP"}),
        ("sent back", {"statsName": "SNDBCK_PUT_NUMS", "statsKey": "P@GB"}),
    ):
        yield _one(f"315/{name}", 315, stats, depth=2)
    yield _one("907", 907, depth=2)
    for code in (306, 316, 329):
        yield _one(f"{code}", code)


def _deleting() -> Iterator[Step]:
    yield from _series("215", 215, {"topic": "T17"})
    for name, topic in (
        ("unknown", "nosuch"),
        ("empty", ""),
        ("blank", " "),
        ("illegal", "a b"),
        ("system", "TBW102"),
        ("too long", "t" * 128),
    ):
        yield _one(f"215/{name}", 215, {"topic": topic})
    yield _one("351/deleted", 351, {"topic": "T17"})
    yield from _series("207", 207, {"groupName": "G200", "cleanOffset": "true"})
    yield _one("207/unseen", 207, {"groupName": "nosuch"})
    yield _one("207/empty", 207, {"groupName": ""})


# The NameServer


def _name_series(name: str, code: int, ext: Ext, body: str = "") -> Iterator[Exchange]:
    return _series(f"names/{name}", code, ext, body, to="nameserver")


def _name(name: str, code: int, ext: Ext | None = None, body: str = "", **more: Any) -> Exchange:
    return _one(f"names/{name}", code, ext, body, to="nameserver", **more)


def _names() -> Iterator[Step]:
    pair = {"namespace": "N", "key": "k", "value": "v"}
    yield _name("219/before", 219, {"namespace": "N"})
    yield from _name_series("100", 100, pair)
    yield _name("100/empty value", 100, pair | {"key": "empty", "value": ""})
    yield _name("100/empty names", 100, {"namespace": "", "key": "", "value": "v"})
    yield from _name_series("101", 101, {"namespace": "N", "key": "k"})
    yield _name("101/unknown", 101, {"namespace": "N", "key": "nosuch"})
    yield _name("101/unknown namespace", 101, {"namespace": "nosuch", "key": "k"})
    yield _name("101/empty value", 101, {"namespace": "N", "key": "empty"})
    yield from _name_series("219", 219, {"namespace": "N"})
    yield _name("219/unknown", 219, {"namespace": "nosuch"})
    yield from _name_series("102", 102, {"namespace": "N", "key": "k"})
    yield _name("102/unknown", 102, {"namespace": "nosuch", "key": "nosuch"})
    register = {
        "brokerName": "far",
        "brokerAddr": "10.0.0.1:10911",
        "clusterName": "Far",
        "haServerAddr": "10.0.0.1:10912",
        "brokerId": 0,
        "heartbeatTimeoutMillis": 600_000,
        "enableActingMaster": "false",
        "compressed": "false",
        "bodyCrc32": 0,
    }
    table = {"dataVersion": {"stateVersion": 0, "timestamp": 1_700_000_000_000, "counter": 1}}
    config = {
        "topicName": "FT",
        "readQueueNums": 2,
        "writeQueueNums": 2,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
    }
    body = _json(
        {
            "topicConfigSerializeWrapper": table | {"topicConfigTable": {"FT": config}},
            "filterServerList": [],
        }
    )
    one = {"topicConfigSerializeWrapper": table | {"topicConfigTable": {"FT": config}}}
    yield _name("103/one topic of a new broker", 103, register, _json(one))
    yield _name("103", 103, register, body)
    yield _name("103/again", 103, register, body)
    yield _name(
        "103/as a slave", 103, register | {"brokerId": 1, "brokerAddr": "10.0.0.2:10911"}, body
    )
    yield _name("103/bad checksum", 103, register | {"bodyCrc32": 5}, body)
    yield _name("103/no JSON", 103, register, "x")
    yield _name("103/empty object", 103, register, "{}")
    yield _name("103/no body", 103, register | {"brokerName": "nobody", "brokerAddr": "10.0.0.3:1"})
    yield _name("103/brokerId no number", 103, register | {"brokerId": "abc"}, body)
    yield _name(
        "103/without brokerId", 103, {n: v for n, v in register.items() if n != "brokerId"}, body
    )
    yield from _name_series(
        "322",
        322,
        {k: register[k] for k in ("brokerName", "brokerAddr", "clusterName", "brokerId")},
        _json(table["dataVersion"]),
    )
    yield _name(
        "322/another version",
        322,
        {k: register[k] for k in ("brokerName", "brokerAddr", "clusterName", "brokerId")},
        _json(table["dataVersion"] | {"counter": 9}),
    )
    yield _name(
        "322/no body",
        322,
        {k: register[k] for k in ("brokerName", "brokerAddr", "clusterName", "brokerId")},
    )
    yield _name(
        "322/unknown",
        322,
        {"brokerName": "x", "brokerAddr": "x:1", "clusterName": "x", "brokerId": 0},
        _json(table["dataVersion"]),
    )
    yield from _name_series(
        "904", 904, {"clusterName": "Far", "brokerAddr": "10.0.0.1:10911", "brokerName": "far"}
    )
    yield _name("904/unknown", 904, {"clusterName": "x", "brokerAddr": "x:1", "brokerName": "x"})
    yield from _name_series("901", 901, {"clusterName": "Far", "brokerName": "far"})
    yield _name("901/unknown", 901, {"clusterName": "nosuch", "brokerName": "nosuch"})
    yield _name("901/another cluster", 901, {"clusterName": "nosuch", "brokerName": "far"})
    yield from _name_series("105", 105, {"topic": "FT", "acceptStandardJsonOnly": "true"})
    yield _name("105/own dialect", 105, {"topic": "FT"}, version=300)
    yield _name("105/unknown", 105, {"topic": "nosuch"})
    yield _name("105/empty", 105, {"topic": ""})
    yield _name("105/TBW102", 105, {"topic": "TBW102", "acceptStandardJsonOnly": "true"})
    yield _name("105/retry of nobody", 105, {"topic": "%RETRY%nosuch"})
    yield _name("106", 106)
    yield _name("106/no ext fields", 106, None)
    yield _name("206", 206, depth=2)
    yield from _name_series("224", 224, {"cluster": "Far"})
    yield _name("224/unknown", 224, {"cluster": "nosuch"})
    yield _name("304", 304)
    for code in (311, 312, 313):
        yield _name(f"{code}", code, depth=2)
    yield from _name_series("205", 205, {"brokerName": "far"})
    yield _name("105/wiped", 105, {"topic": "FT", "acceptStandardJsonOnly": "true"})
    yield _name("205/unknown", 205, {"brokerName": "nosuch"})
    yield from _name_series("327", 327, {"brokerName": "far"})
    yield _name("327/unknown", 327, {"brokerName": "nosuch"})
    route = _json(
        {
            "queueDatas": [
                {
                    "brokerName": "far",
                    "perm": 6,
                    "readQueueNums": 1,
                    "writeQueueNums": 1,
                    "topicSysFlag": 0,
                }
            ]
        }
    )
    yield from _name_series("217", 217, {"topic": "FT217"}, route)
    yield _name("217/no body", 217, {"topic": "FT217b"})
    yield _name("217/no JSON", 217, {"topic": "FT217c"}, "x")
    yield _name("217/unknown broker", 217, {"topic": "FT217d"}, route.replace("far", "nosuch"))
    yield _name("217/empty object", 217, {"topic": "FT217e"}, "{}")
    yield _name("105/registered alone", 105, {"topic": "FT217", "acceptStandardJsonOnly": "true"})
    yield from _name_series("216", 216, {"topic": "FT217", "clusterName": "Far"})
    yield _name("216/unknown", 216, {"topic": "nosuch"})
    yield _name("318/no body", 318)
    yield _name("318/garbage", 318, body="nonsense")
    yield _name("318/unknown key", 318, body="nosuch=1\n")
    yield _name("318/bad number", 318, body="defaultThreadPoolNums=abc\n")
    yield _name("318/black list", 318, body="kvConfigPath=/x\n")
    yield _name("319", 319, depth=2)
    leave = {k: register[k] for k in ("brokerName", "brokerAddr", "clusterName", "brokerId")}
    yield _name("104/brokerId no number", 104, leave | {"brokerId": "abc"})
    yield _name(
        "104/unknown",
        104,
        {"brokerName": "x", "brokerAddr": "x:1", "clusterName": "x", "brokerId": 0},
    )
    yield _name("104", 104, leave)


def _not_spoken() -> Iterator[Step]:
    for code in (1, 9999, 40, 220):
        yield _one(f"unknown/{code}", code)
        yield _name(f"unknown/{code}", code)
    for code in (
        37,
        60,
        61,
        323,
        354,
        355,
        370,
        513,
        906,
        908,
        2001,
        2002,
        2003,
        2004,
        3001,
        3004,
        3005,
        3010,
        200050,
        200051,
        200052,
        200053,
        200054,
        200055,
        200151,
    ):
        yield _one(f"not there/{code}", code)
