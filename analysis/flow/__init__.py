"""Messages from node to node: chains, their parts, what blocked them."""
