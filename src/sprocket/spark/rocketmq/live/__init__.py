"""Live topics: what a cluster is asked, offsets by queue, the stream over them."""
