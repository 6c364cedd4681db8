"""What a node encrypts with: its certificate, read again when the files change.

Operators put a new certificate in the place of an old one and expect no restart. The files are
looked at when a client begins a handshake, at most once a second; while the new ones do not fit
each other, as between the two copies, the old ones go on.
"""

import ssl

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.disk import Disk
from sprocket.base.errors import SettingsError, StoreError
from sprocket.rocketmq.network_settings import TlsSettings
from sprocket.runtime.driver import Peer
from sprocket.runtime.tls import Greeter

LOOK_SECONDS = 1.0
"""How often the files are looked at, at most."""

_AUTH = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "require": ssl.CERT_REQUIRED}

_log = log.get_logger(__name__)


class Encryption:
    """The server's side.

    Args:
        settings: Files and modes; not `off`.
        disk: Tells when the files changed.
        clock: Tells when to look again.

    Raises:
        SettingsError: A file is missing or is none, or they do not fit each other.
    Threads: event loop only.
    """

    def __init__(self, settings: TlsSettings, disk: Disk, clock: Clock) -> None:
        self._settings = settings
        self._disk = disk
        self._clock = clock
        self._is_required = settings.mode == "enforcing"
        self._context = _server_context(settings)
        self._changed_at = self._times()
        self._looked_at = clock.monotonic()

    def greet(self, peer: Peer) -> Greeter:
        """Return what reads a new connection first."""
        return Greeter(peer, self.context, is_required=self._is_required)

    def context(self) -> ssl.SSLContext:
        """Return what new handshakes use now."""
        now = self._clock.monotonic()
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._look()
        return self._context

    def _look(self) -> None:
        times = self._times()
        if times == self._changed_at:
            return
        try:
            self._context = _server_context(self._settings)
        except SettingsError as error:
            _log.error("the new certificate cannot be used; the old one stays", why=str(error))
        else:
            self._changed_at = times
            _log.info("the certificate was read again", path=self._settings.cert_path)

    def _times(self) -> list[int | None]:
        """Return when each file was changed, None for one that is not there just now."""
        settings = self._settings
        times: list[int | None] = []
        for path in (settings.cert_path, settings.key_path, settings.trust_path):
            try:
                times.append(self._disk.modified_at_ms(path) if path else 0)
            except StoreError:
                times.append(None)
        return times


def client_context(settings: TlsSettings) -> ssl.SSLContext | None:
    """Return what the broker's connections to NameServers use, None if they are plain.

    Raises:
        SettingsError: A file is missing or is none, or they do not fit each other.
    """
    if not settings.to_nameservers and settings.mode != "enforcing":
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # as RocketMQ's own clients: brokers are known by address
    context.verify_mode = ssl.CERT_REQUIRED if settings.trust_path else ssl.CERT_NONE
    _load(context, settings)
    return context


def _server_context(settings: TlsSettings) -> ssl.SSLContext:
    if not settings.cert_path:
        raise SettingsError(f"tls.cert_path: a certificate is needed for tls.mode={settings.mode}")
    if settings.client_auth != "none" and not settings.trust_path:
        raise SettingsError(f"tls.trust_path is needed for tls.client_auth={settings.client_auth}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_mode = _AUTH[settings.client_auth]
    _load(context, settings)
    return context


def _load(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Have a context read the files. Raises SettingsError that names them."""
    path = ""
    try:
        if settings.cert_path:
            path = f"{settings.cert_path} with tls.key_path={settings.key_path}"
            context.load_cert_chain(
                settings.cert_path, settings.key_path or None, lambda: settings.key_password
            )
        if settings.trust_path:
            path = settings.trust_path
            context.load_verify_locations(settings.trust_path)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise SettingsError(f"tls: {path} cannot be used: {error}") from error
