"""Programs of the suite micro-ros: client and agent, on this host and on an emulated board."""
