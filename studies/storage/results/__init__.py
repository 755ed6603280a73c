"""Read the files that runs of the storage study leave, and its published figures, as frames."""
