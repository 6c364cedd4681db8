"""TLS contexts made from PEM files, for clients of a broker and for servers."""

import ssl

from sprocket.base.errors import SettingsError
from sprocket.runtime.settings import EncryptionSettings


def client_context(
    *, trust_path: str = "", cert_path: str = "", key_path: str = "", key_password: str = ""
) -> ssl.SSLContext:
    """Return what a client encrypts its connections with.

    Host names are not compared: brokers are known by address.
    Without `trust_path` servers are not checked: nobody can listen, but anybody can pose as a
    server.

    Args:
        trust_path: Certificates of the authorities that servers must have been signed by.
        cert_path: The client's own certificate, where servers ask for one.
        key_path: Its key; may be left out if the same file holds it.
        key_password: Of the key, if it is encrypted.

    Raises:
        SettingsError: A file is missing or is none, or they do not fit each other.
    """
    return context_towards_servers(
        EncryptionSettings(
            trust_path=trust_path,
            cert_path=cert_path,
            key_path=key_path,
            key_password=key_password,
        )
    )


def context_towards_servers(files: EncryptionSettings) -> ssl.SSLContext:
    """Return what one that has its files in settings encrypts its connections to servers with.

    Raises:
        SettingsError: See `client_context`.
    """
    if files.key_path and not files.cert_path:
        raise SettingsError(f"tls: the key {files.key_path} was given without its certificate")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED if files.trust_path else ssl.CERT_NONE
    load(context, files)
    return context


def load(context: ssl.SSLContext, files: EncryptionSettings) -> None:
    """Have a context read files; those that are empty texts are left out.

    Raises:
        SettingsError: It names the file that cannot be used, and why.
    """
    path = ""
    try:
        if files.cert_path:
            path, key_path = files.cert_path, files.key_path or None
            if key_path:
                path += f" with the key {key_path}"
            context.load_cert_chain(files.cert_path, key_path, lambda: files.key_password)
        if files.trust_path:
            path = files.trust_path
            context.load_verify_locations(path)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise SettingsError(f"tls: {path} cannot be used: {error}") from error


def server_checking_context(
    trust_path: str, cert_path: str = "", key_path: str = "", key_password: str = ""
) -> ssl.SSLContext:
    """Return what one encrypts with whose servers have names: certificate and name are checked.

    Args:
        trust_path: Certificates of the authorities that servers must have been signed by.
        cert_path: See `client_context`.
        key_path: The same.
        key_password: The same.

    Raises:
        SettingsError: See `client_context`.
    """
    context = client_context(
        trust_path=trust_path, cert_path=cert_path, key_path=key_path, key_password=key_password
    )
    context.check_hostname = True
    return context
