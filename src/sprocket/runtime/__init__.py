"""The asynchronous floor: the loop's driver, its tasks, and the only threads."""
