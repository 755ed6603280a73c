"""Follow each message from its publication to the end of its callback, and say where time went."""
