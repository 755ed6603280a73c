"""What a crash or a power loss leaves of a recording: the storage benchmark, ended in mid-write."""
