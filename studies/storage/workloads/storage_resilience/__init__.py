"""The storage benchmark, ended in mid-write by a crash or a power loss."""
