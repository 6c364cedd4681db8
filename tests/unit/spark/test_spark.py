"""The package's front door, and the one by which Spark finds the format itself."""

from typing import Any

from sprocket.spark import register


class Registry:
    """Notes what is registered."""

    def __init__(self) -> None:
        self.known: list[Any] = []
        self.dataSource = self

    def register(self, source: type) -> None:
        """Take a source, as `SparkSession.dataSource.register` does."""
        self.known.append(source)


def test_register_and_discovery_give_the_same_source() -> None:
    """Explicit registration and the modules `pyspark_*` name the same classes."""
    import pyspark_rabbitmq
    import pyspark_rocketmq

    registry = Registry()
    register(registry)
    assert registry.known == [pyspark_rocketmq.DefaultSource, pyspark_rabbitmq.DefaultSource]
    assert [one.name() for one in registry.known] == ["rocketmq", "rabbitmq"]
