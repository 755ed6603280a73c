"""Files that runs of the study of storage leave, and its published figures, as frames."""
