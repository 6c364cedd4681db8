"""Tables of the catalog: which options are theirs, and which of them the schema keeps."""

import json

from pyspark.sql.types import StringType, StructField, StructType

from sprocket.spark.catalog_table import METADATA, kept, options_of_table, with_kept

CREATED = {
    "location": "file:/s",
    "path": "file:/s",
    "owner": "somebody",
    "provider": "rocketmq",
    "external": "true",
    "comment": "x",
    "k": "v",
    "subscribe": "a",
    "option.subscribe": "a",
    "view": "meta",
    "option.view": "meta",
}
"""What Spark passes for OPTIONS (path, subscribe, view) and TBLPROPERTIES (k)."""


def test_what_the_catalog_adds_is_left_out() -> None:
    """An option comes twice; properties of the table and the catalog's words once."""
    assert options_of_table(CREATED) == {"path": "file:/s", "subscribe": "a", "view": "meta"}
    assert options_of_table({"path": "/s", "subscribe": "a"}) is None


def test_secrets_are_not_kept() -> None:
    """Names of files are not secrets, even of a file with a key."""
    secret = ["fs.secret_key", "fs.access_key", "fs.session_token", "tlskeypassword", "fs.key"]
    plain = ["fs.region", "fs.endpoint_override", "tlskeypath", "subscribe"]
    found = json.loads(kept(dict.fromkeys([*secret, *plain], "x"))[METADATA])
    assert sorted(found) == sorted(plain)


def test_what_is_given_wins_over_what_is_kept() -> None:
    """Whichever column has it; a schema of the user's own has nothing."""
    field = StructField("b", StringType(), metadata=kept({"view": "meta", "subscribe": "a"}))
    schema = StructType([StructField("a", StringType()), field])
    assert with_kept(schema, {"Subscribe": "b"}) == {"view": "meta", "subscribe": "b"}
    plain = StructType([StructField("a", StringType())])
    assert with_kept(plain, {"Path": "/s"}) == {"path": "/s"}
