"""The files in which RocketMQ 4 has its rules: `plain_acl.yml`, and all files of a folder `acl`.

Source: RocketMQ `PlainPermissionManager`, `AuthMigrator`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sprocket.base.disk import Disk, read_file
from sprocket.base.errors import SettingsError, StoreError, WireError
from sprocket.rocketmq.codec.config import plain_acl
from sprocket.rocketmq.model.address_pattern import AddressPattern

try:
    import yaml
except ImportError:  # the light install
    yaml = None

DEFAULT_FILE = "plain_acl.yml"
FOLDER = "acl"
"""What RocketMQ reads in its folder `conf`: a file, and all files of a folder."""

Contents = Mapping[str, bytes]
"""The bytes of files by their paths, in the order in which an account's first one counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFile:
    """What one file says.

    Attributes:
        path: Where it is.
        accounts: Its accounts.
        white_addresses: Requests from these need no signature.
    """

    path: str
    accounts: Sequence[plain_acl.Account]
    white_addresses: Sequence[AddressPattern]


def read(disk: Disk, path: str) -> Contents:
    """Return the files of a path: a file, or a folder `conf`.

    Raises:
        SettingsError: One is missing or cannot be read.
    Threads: any.
    """
    contents = {}
    try:
        for file in _files(disk, path):
            contents[file] = read_file(disk, file)
    except StoreError as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error
    return contents


def parse(contents: Contents) -> list[RuleFile]:
    """Return what files say.

    Raises:
        SettingsError: One is not as RocketMQ has it, or the package that reads it is missing.
    """
    return [_parsed(path, data) for path, data in contents.items()]


def _parsed(path: str, data: bytes) -> RuleFile:
    content = _loaded(path, data)
    try:
        return RuleFile(
            path=path,
            accounts=plain_acl.read_accounts(content),
            white_addresses=plain_acl.read_white_addresses(content),
        )
    except WireError as error:
        raise SettingsError(f"{path}: {error}") from error


def _loaded(path: str, data: bytes) -> object:
    if yaml is None:
        raise SettingsError(
            f"{path} is YAML, which needs the package `PyYAML`; "
            "install the extra: pip install 'sprocketmq[yaml]'"
        )
    try:
        return yaml.safe_load(data.decode())
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        # What YAML says quotes the line, which may have a secret.
        place = getattr(error, "problem_mark", None)
        what = error if place is None else f"line {place.line + 1} is not YAML"
        raise SettingsError(f"{path} cannot be read: {what}") from None


def _files(disk: Disk, path: str) -> list[str]:
    """Return the files to read, in the order in which an account's first one counts."""
    if not disk.is_folder(path):
        return [path]
    found = list(_below(disk, f"{path}/{FOLDER}"))
    if disk.exists(f"{path}/{DEFAULT_FILE}") or not found:
        found.append(f"{path}/{DEFAULT_FILE}")
    return found


def _below(disk: Disk, folder: str) -> Sequence[str]:
    """Return the files of a folder and of those in it, by name."""
    if not disk.is_folder(folder):
        return []
    found: list[str] = []
    for name in sorted(disk.list(folder)):
        path = f"{folder}/{name}"
        if name.endswith((".yml", ".yaml")):
            found.append(path)
        else:
            found += _below(disk, path)
    return found
