"""What clients ask for, by values: no bytes, no sockets."""
