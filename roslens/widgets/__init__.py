"""Pictures that can be explored, for notebooks."""
