"""Users log in with their passwords, and may do what permissions say."""

import pytest
from tests.rabbit_topology import Declarations, declare_exchange

from sprocket.rabbitmq.broker.access import Need, Unlimited, UserAccess, passwords
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.exchange import Exchange
from sprocket.rabbitmq.model.resource import exchange_resource, queue_resource
from sprocket.rabbitmq.model.user import MD5, SHA256, SHA512, TopicPermission, User, VhostPermission


def with_user(**expressions: str) -> tuple[Declarations, UserAccess]:
    """Return a user in a virtual host, by the expressions that are not empty."""
    declarations = Declarations()
    declarations.vhost()
    declarations.users.put(User(name="u"))
    given = {"configure": "", "write": "", "read": "", **expressions}
    declarations.users.allow(VhostPermission(user="u", vhost="/", **given))
    return declarations, declarations.users.access("u", "/")


def is_allowed(access: UserAccess, need: Need, name: str) -> bool:
    """Whether a user may use a queue."""
    try:
        access.check(need, queue_resource(name, "/"))
    except RequestRefused:
        return False
    return True


def test_a_user_logs_in_with_a_password_or_a_certificate() -> None:
    """Who has no password, with a certificate only; the log is told why somebody is refused."""
    users = Declarations().users
    users.put(User(name="u", password_hash=passwords.hashed(b"secret")))
    users.put(User(name="none"))
    assert users.log_in("u", b"secret", is_loopback=False).name == "u"
    assert users.log_in("none", None, is_loopback=False).name == "none"
    for name, password in (("u", b"Secret"), ("u", b""), ("none", b""), ("none", b"x")):
        with pytest.raises(RequestRefused, match=f"user '{name}' - invalid credentials"):
            users.log_in(name, password, is_loopback=True)
    with pytest.raises(RequestRefused, match="user 'nobody' - invalid credentials"):
        users.log_in("nobody", None, is_loopback=True)


@pytest.mark.parametrize("algorithm", [SHA256, SHA512, MD5])
def test_a_password_that_is_hashed_here_fits(algorithm: str) -> None:
    """With another salt each time."""
    first, second = (passwords.hashed(b"secret", algorithm) for _ in range(2))
    assert first != second
    assert passwords.fits(b"secret", first, algorithm)
    assert not passwords.fits(b"Secret", first, algorithm)
    assert not passwords.fits(b"", passwords.hashed(b"", algorithm), algorithm)


def test_guest_is_let_in_from_this_machine_only() -> None:
    """Whether by a password or by a certificate."""
    users = Declarations().users
    users.put(User(name="guest", password_hash=passwords.hashed(b"guest")))
    users.log_in("guest", b"guest", is_loopback=True)
    for password in (b"guest", None):
        with pytest.raises(RequestRefused, match="can only connect via localhost"):
            users.log_in("guest", password, is_loopback=False)


def test_expressions_are_looked_for_anywhere_in_a_name() -> None:
    """But for the empty one, which fits the empty name only."""
    _, access = with_user(write="b", read="^a$")
    assert [is_allowed(access, Need.WRITE, name) for name in ("abc", "b", "ac")] == [1, 1, 0]
    assert [is_allowed(access, Need.READ, name) for name in ("a", "ab", "")] == [1, 0, 0]
    assert [is_allowed(access, Need.CONFIGURE, name) for name in ("a", "")] == [0, 1]


def test_the_default_exchange_has_a_name_for_permissions() -> None:
    """RabbitMQ's texts have it as well."""
    _, access = with_user(write=r"^amq\.default$")
    access.check(Need.WRITE, exchange_resource("", "/"))
    with pytest.raises(RequestRefused) as refused:
        access.check(Need.READ, exchange_resource("", "/"))
    assert refused.value.remark == (
        "access to exchange 'amq.default' in vhost '/' refused for user 'u'"
    )


def test_permissions_change_for_who_is_in_already() -> None:
    """At once; and without any nobody enters."""
    declarations, access = with_user(read=".*")
    assert is_allowed(access, Need.READ, "q")
    declarations.users.allow(
        VhostPermission(user="u", vhost="/", configure="", write=".*", read="")
    )
    assert [is_allowed(access, need, "q") for need in (Need.READ, Need.WRITE)] == [False, True]
    assert declarations.users.forbid("u", "/")
    assert not is_allowed(access, Need.WRITE, "q")
    with pytest.raises(RequestRefused) as refused:
        declarations.users.access("u", "/")
    assert refused.value.remark == "access to vhost '/' refused for user 'u'"
    assert not declarations.users.forbid("u", "/")


def test_topic_permissions_expand_names() -> None:
    """They are for topic exchanges alone, and without one every key is allowed."""
    declarations, access = with_user(write=".*")
    topology = declarations.vhost()
    declare_exchange(topology, "t", "topic")
    declare_exchange(topology, "d", "direct")
    rule = TopicPermission(
        user="u", vhost="/", exchange="t", write="^{username}[.]{vhost}", read=""
    )
    declarations.users.allow(rule)
    topic, direct = topology.exchange("t"), topology.exchange("d")
    access.check_topic(Need.WRITE, topic, "u./.x")
    access.check_topic(Need.WRITE, direct, "x")
    access.check_topic(Need.WRITE, topology.exchange("amq.topic"), "x")
    for need in (Need.WRITE, Need.READ):
        with pytest.raises(RequestRefused) as refused:
            access.check_topic(need, topic, "x")
        assert refused.value.remark == (
            "access to topic 'x' in exchange 't' in vhost '/' refused for user 'u'"
        )
    assert declarations.users.clear_topics("u", "/", "t")
    access.check_topic(Need.WRITE, topic, "x")


def test_a_restart_leaves_users_and_what_they_may_do() -> None:
    """Also what was changed and removed."""
    before, _ = with_user(write="a")
    users = before.users
    users.put(User(name="gone"))
    for name in ("u", "gone"):
        users.allow(
            TopicPermission(user=name, vhost="/", exchange="amq.topic", write="a", read="b")
        )
    users.allow(VhostPermission(user="gone", vhost="/", configure="", write="", read=""))
    users.allow(VhostPermission(user="u", vhost="/", configure="", write="b", read=""))
    users.put(User(name="u", tags=("x",), limits={"max-channels": 5}))
    assert (users.remove("gone"), users.remove("gone")) == (True, False)
    after = Declarations(before.disk.kill()).users
    assert list(after) == [User(name="u", tags=("x",), limits={"max-channels": 5})]
    assert [one.write for one in after.permissions()] == ["b"]
    assert [one.user for one in after.topic_permissions()] == ["u"]


def test_a_virtual_host_takes_permissions_along() -> None:
    """Who was in may do nothing; one of the same name that comes later does not bring it back."""
    declarations, access = with_user(read=".*")
    declarations.vhosts.remove("/")
    assert not is_allowed(access, Need.READ, "q")
    declarations.vhost()
    with pytest.raises(RequestRefused, match="refused for user 'u'"):
        declarations.users.access("u", "/")
    assert list(Declarations(declarations.disk.kill()).users.permissions()) == []


def test_what_cannot_be_is_refused() -> None:
    """Users that are not there, expressions that are none, unknown hashes and limits."""
    declarations, _ = with_user()
    users = declarations.users
    for attempt, text in (
        (lambda: users.put(User(name="v", hashing_algorithm="x")), "unknown hashing algorithm x"),
        (
            lambda: users.put(User(name="v", limits={"foo": 1})),
            r'terms \[\{<<"foo">>,1\}\] in user-limits',
        ),
        (lambda: users.forbid("v", "/"), "no such user: v"),
        (lambda: users.clear_topics("v", "/"), "no such user: v"),
        (
            lambda: users.allow(
                VhostPermission(user="u", vhost="/", configure="(", write="", read="")
            ),
            r"invalid regular expression: \{\"missing \)\",1\}",
        ),
    ):
        with pytest.raises(RequestRefused, match=text):
            attempt()


def test_the_broker_itself_may_do_everything() -> None:
    """And is never asked."""
    Unlimited().check(Need.CONFIGURE, queue_resource("q", "/"))
    Unlimited().check_topic(Need.READ, Exchange(vhost="/", name="t", type="topic"), "k")
