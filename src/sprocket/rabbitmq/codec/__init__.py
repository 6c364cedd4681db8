"""Every layout of bytes on wire and disk, without I/O."""
