"""Rows of the source: columns made from many records at once, and Arrow batches of them."""
