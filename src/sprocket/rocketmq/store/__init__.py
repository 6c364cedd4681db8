"""The storage engine, a synchronous library that needs no broker."""
