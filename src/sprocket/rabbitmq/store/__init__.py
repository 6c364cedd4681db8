"""The storage engine of classic queues, a synchronous library that needs no broker."""
