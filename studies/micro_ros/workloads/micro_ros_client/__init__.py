"""The suite micro-ros: its client and its agent, on this host and on an emulated board."""
