"""Follow messages from node to node: chains, their parts, and what blocked them."""
