"""This package as a zip file, for clusters whose machines do not have it installed."""

import io
import os
import zipfile

import sprocket
from sprocket.base.disk import RealDisk, read_file, replace_file

_PACKAGES = ("sprocket", "pyspark_rabbitmq", "pyspark_rocketmq")
_STAMP = (1980, 1, 1, 0, 0, 0)


def package_zip(folder: str) -> str:
    """Write `sprocket.zip`, which Spark puts on the path of its workers, and return its path.

    It goes into `spark.submit.pyFiles`, `spark-submit --py-files`, or
    `spark.addArtifacts(path, pyfile=True)`. The workers' Python must have what it needs beside
    itself: `msgspec`, `numpy`, `pandas`, `pyarrow` and `structlog`.

    Args:
        folder: Where; it is made if it is missing.

    Returns:
        The path. The same source gives the same bytes.
    """
    disk = RealDisk()
    disk.make_folder(folder)
    root = os.path.dirname(os.path.dirname(os.path.abspath(sprocket.__file__)))
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in _PACKAGES:
            _add(archive, disk, root, package)
    path = os.path.join(os.path.abspath(folder), "sprocket.zip")
    replace_file(disk, path, made.getvalue())
    return path


def _add(archive: zipfile.ZipFile, disk: RealDisk, root: str, inside: str) -> None:
    """Add the Python files below a folder."""
    for name in disk.list(f"{root}/{inside}"):
        path = f"{inside}/{name}"
        if name == "__pycache__":
            continue
        if disk.is_folder(f"{root}/{path}"):
            _add(archive, disk, root, path)
        elif name.endswith((".py", ".typed")):
            archive.writestr(zipfile.ZipInfo(path, _STAMP), read_file(disk, f"{root}/{path}"))
