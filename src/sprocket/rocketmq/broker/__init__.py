"""What a broker knows and decides, between the wire and the store."""
