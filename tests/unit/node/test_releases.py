"""Which release may open a folder, of each product."""

import pytest
from tests.unit.node.test_health import given

from sprocket.base import release
from sprocket.base.checksum import crc32
from sprocket.base.disk import replace_file
from sprocket.base.errors import ForeignStore
from sprocket.node.host import Host
from sprocket.node.products import PRODUCTS
from sprocket.rabbitmq.store.reading import vhost_folders
from sprocket.runtime import driver
from sprocket.testing.disk import SimulatedDisk


@pytest.mark.parametrize("folder", ["/s", "/s/rabbitmq", "vhost"])
def test_a_newer_release_s_folder_is_refused(folder: str) -> None:
    """Of either product, and of one virtual host: in one sentence, and nothing is changed."""

    async def main() -> None:
        disk = SimulatedDisk()
        host = await Host.start(PRODUCTS, given(), "/s", disk=disk)
        await host.stop()
        (vhost,) = vhost_folders(disk, "/s")
        root = vhost if folder == "vhost" else folder
        replace_file(disk, f"{root}/{release.FILE}", b"99.0.0 %d\n" % crc32(b"99.0.0"))
        before = {path: data for path, data in disk.contents().items() if path.startswith(root)}
        with pytest.raises(ForeignStore, match=r"use 99\.0\.0 or a later one"):
            await Host.start(PRODUCTS, given(), "/s", disk=disk)
        after = {path: data for path, data in disk.contents().items() if path.startswith(root)}
        if root != "/s":  # the other product was open before
            assert after == before

    driver.run(main())
