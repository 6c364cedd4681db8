"""The package's front door, and the one by which Spark finds the format itself."""

from sprocket.spark import register


class Registry:
    """Notes what is registered."""

    def __init__(self) -> None:
        self.known: list[type] = []
        self.dataSource = self

    def register(self, source: type) -> None:
        """Take a source, as `SparkSession.dataSource.register` does."""
        self.known.append(source)


def test_register_and_discovery_give_the_same_source() -> None:
    """Explicit registration and the module `pyspark_rocketmq` name one class."""
    from pyspark_rocketmq import DefaultSource

    registry = Registry()
    register(registry)
    assert registry.known == [DefaultSource]
    assert DefaultSource.name() == "rocketmq"
