"""Commands that look into a store's folder and repair it, of a live broker or a dead one."""

from sprocket.cli.folder import rabbit_store, store

__all__ = ["rabbit_store", "store"]
