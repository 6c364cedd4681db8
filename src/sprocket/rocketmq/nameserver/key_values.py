"""Texts that tools store in a NameServer, by namespace and key; every change is written at once.

Source: RocketMQ `KVConfigManager` and its `kvConfig.json`:
`{"configTable":{namespace:{key:value}}}`.
"""

from collections.abc import Callable, Mapping

from sprocket.rocketmq.codec.config import JsonValue, values

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
"""Topic → `broker:count;…`, for topics whose order is kept over all brokers."""


class KeyValues:
    """The table, and what keeps it.

    Args:
        table: Namespace → key → value, as it was kept.
        keep: Makes the content of `kvConfig.json` durable, or raises StoreError; then the change
            is not made.

    Threads: event loop only.
    """

    def __init__(
        self,
        table: Mapping[str, Mapping[str, str]],
        keep: Callable[[Mapping[str, JsonValue]], None],
    ) -> None:
        self._table = {name: dict(texts) for name, texts in table.items()}
        self._keep = keep

    def get(self, namespace: str | None, key: str | None) -> str | None:
        """Return a value, or None; it is None for names that are None."""
        if namespace is None or key is None:
            return None
        return self._table.get(namespace, {}).get(key)

    def namespace(self, name: str | None) -> Mapping[str, str] | None:
        """Return all values of a namespace, None if nothing was ever put there."""
        return None if name is None else self._table.get(name)

    def put(self, namespace: str, key: str, value: str | None) -> None:
        """Set a value; None forgets it, and makes the namespace. Durable when this returns."""
        texts = dict(self._table.get(namespace, {}))
        if value is None:
            texts.pop(key, None)
        else:
            texts[key] = value
        self._change(namespace, texts)

    def delete(self, namespace: str | None, key: str | None) -> None:
        """Forget a value; the namespace stays. Durable when this returns."""
        texts = self.namespace(namespace) or {}
        if namespace is not None and key in texts:
            self._change(namespace, {name: text for name, text in texts.items() if name != key})

    def _change(self, namespace: str, texts: dict[str, str]) -> None:
        changed = self._table | {namespace: texts}
        self._keep({"configTable": changed})
        self._table = changed


def from_json(content: Mapping[str, JsonValue]) -> dict[str, dict[str, str]]:
    """Return the table that `kvConfig.json` holds. Raises WireError."""
    table = values.mapping(content.get("configTable"), "configTable")
    return {
        values.text(name): {
            values.text(key): values.text(value)
            for key, value in values.mapping(texts, f"namespace {name}").items()
        }
        for name, texts in table.items()
    }
