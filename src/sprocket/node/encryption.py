"""What a node encrypts with: a certificate, read again when it changes, or a throw-away one.

Operators replace a certificate and expect that no restart is needed. The files are read when a
client begins a handshake, at most once a second. While the new ones do not belong together, as
between the two copies, the old ones are used.

Without a certificate one is made when the first client wants it, on a thread, as that takes longer
than the loop may wait (`throw_away`). If it cannot be made, clients that want TLS are refused with
the reason, and plain ones go on.
"""

import ssl
from collections.abc import Callable, Sequence

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.disk import Disk, RealDisk, read_file
from sprocket.base.errors import SettingsError, StoreError
from sprocket.node import throw_away
from sprocket.runtime import tls_files
from sprocket.runtime.certificates import CertificateFile
from sprocket.runtime.offload import DiskThread
from sprocket.runtime.settings import EncryptionSettings

PROTOCOLS = ("http/1.1", "h2")
"""What clients may choose by ALPN, the first that they know: those of gRPC offer `h2` alone, and do
not go on without an answer. Others who offer it know HTTP/1.1, too, which is what they find."""
POLL_SECONDS = 1.0
"""How often the files are checked for changes, at most."""

_AUTH = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "require": ssl.CERT_REQUIRED}

_log = log.get_logger(__name__)
_limited_log = log.get_limited_logger(__name__)


Use = Callable[[ssl.SSLContext], None]
Refuse = Callable[[str], None]


class NodeEncryption:
    """The server's side.

    Args:
        settings: Files and modes; not `off`.
        disk: Tells when the files changed.
        clock: Says when to poll again.
        certify: Gives a context a throw-away certificate; raises SettingsError.

    Raises:
        SettingsError: A file is missing or cannot be read, or they do not fit each other.
    Threads: event loop only.
    """

    def __init__(
        self,
        settings: EncryptionSettings,
        disk: Disk,
        clock: Clock,
        certify: Callable[[ssl.SSLContext, int], None] = throw_away.certify,
    ) -> None:
        self._settings = settings
        self._disk = disk
        self._clock = clock
        self._certify = certify
        self.is_required = settings.mode == "enforcing"
        """Whether plain connections are closed."""
        self._context = _server_context(settings)
        self._files = _files(settings)
        self._has_certificate = bool(settings.cert_path)
        self._why_not = ""
        self._waiting: list[tuple[Use, Refuse]] = []
        """Clients that came while the throw-away certificate was made."""
        self._changed_at = self._times()
        self._polled_at = clock.monotonic()

    def obtain(self, use: Use, refuse: Refuse) -> None:
        """Call one of the two: with what new handshakes use now, or with the reason for none.

        At once, except for those that come until a throw-away certificate is made.
        """
        if self._has_certificate:
            use(self.context())
        elif self._why_not:
            refuse(self._why_not)
        else:
            self._waiting.append((use, refuse))
            if len(self._waiting) == 1:
                self._make()

    def context(self) -> ssl.SSLContext:
        """Return what new handshakes use now."""
        now = self._clock.monotonic()
        if now - self._polled_at >= POLL_SECONDS:
            self._polled_at = now
            self._poll()
        return self._context

    def certificates(self) -> Sequence[CertificateFile]:
        """Return the files of what new handshakes use now: own certificates, then authorities'."""
        self.context()
        return self._files

    def _make(self) -> None:
        """Begin to make a throw-away certificate; clients that wait for it continue afterwards."""
        thread = DiskThread("sprocket-certificate")
        now_ms = self._clock.now_ms()
        thread.submit(lambda: self._certify(self._context, now_ms), self._made)
        thread.end()

    def _made(self, _: None, error: BaseException | None) -> None:
        waiting, self._waiting = self._waiting, []
        if error is None:
            self._has_certificate = True
            _log.info("a throw-away certificate was made; nobody can check who we are")
        else:
            self._why_not = str(error) or repr(error)
            _log.error("TLS is off", reason=self._why_not, exc_info=error)
        for use, refuse in waiting:
            if error is None:
                use(self._context)
            else:
                refuse(self._why_not)

    def _poll(self) -> None:
        times = self._times()
        if times == self._changed_at:
            return
        try:
            context, files = _server_context(self._settings), _files(self._settings)
        except SettingsError as error:
            _limited_log.error(
                "the new certificate cannot be used; the old one stays", why=str(error)
            )
        else:
            self._context, self._files = context, files
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


def _files(settings: EncryptionSettings) -> Sequence[CertificateFile]:
    """Return what is in them. Raises SettingsError."""
    found = []
    for path in filter(None, (settings.cert_path, settings.trust_path)):
        try:
            # From where OpenSSL reads them.
            found.append(CertificateFile(path, read_file(RealDisk(), path)))
        except StoreError as error:
            raise SettingsError(f"tls: {path} cannot be used: {error}") from error
    return found


def _server_context(settings: EncryptionSettings) -> ssl.SSLContext:
    if not settings.cert_path and settings.mode == "enforcing":
        raise SettingsError("tls.cert_path: a certificate is needed for tls.mode=enforcing")
    if settings.client_auth != "none" and not settings.trust_path:
        raise SettingsError(f"tls.trust_path is needed for tls.client_auth={settings.client_auth}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_mode = _AUTH[settings.client_auth]
    context.set_alpn_protocols(list(PROTOCOLS))
    tls_files.load(context, settings)
    return context
