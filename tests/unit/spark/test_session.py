"""The helper that starts a session."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from sprocket.spark import spark_home

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_small_machine_defaults(spark: Any) -> None:
    """UTC, no web page, few shuffle partitions, and the format is there."""
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sparkContext.defaultParallelism == 2


def test_workers_import_the_installed_pyspark(spark: Any) -> None:
    """Its byte code is kept, while each process would compile what is in Spark's archive."""

    def where(_: int) -> str:
        import pyspark

        return str(pyspark.__file__)

    import pyspark

    assert spark.sparkContext.parallelize([1], 1).map(where).collect() == [pyspark.__file__]


def test_a_home_without_archives_has_all_the_rest(tmp_path: Path) -> None:
    """It is named while the JVM starts, and not afterwards."""
    import pyspark

    env: dict[str, str] = {}
    with spark_home.without_archives(env, str(tmp_path)):
        home = Path(env["SPARK_HOME"])
    assert env == {}
    installed = Path(pyspark.__file__).parent
    assert {one.name for one in home.iterdir()} == set(os.listdir(installed)) - {"python"}
    assert (home / "jars").resolve() == installed / "jars"


@pytest.mark.parametrize(
    "env", [{"SPARK_HOME": "/opt/spark"}, {"PYSPARK_PYTHON": f"{sys.executable}-other"}]
)
def test_what_somebody_chose_stays(env: dict[str, str], tmp_path: Path) -> None:
    """A home of theirs, or a Python that may have another PySpark or none."""
    chosen = dict(env)
    with spark_home.without_archives(env, str(tmp_path)):
        assert env == chosen
    assert list(tmp_path.iterdir()) == []
