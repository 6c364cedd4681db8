"""The one door to the file system, and what stands on it.

`Disk` opens, renames, syncs and locks; `RealDisk` is the system's, tests have a simulated one.
`segments` cut an address space of bytes into files; `files` reads and replaces small ones;
`nonblocking` ends an attempt where it would have to wait for a read; `steps` is long work that
is done piece by piece, its slow parts on another thread.
"""
