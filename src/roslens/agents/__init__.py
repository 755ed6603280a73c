"""``roslens mcp``: what programs that talk may ask, over the Model Context Protocol.

`asking` runs a verb and bounds what it answers, `server` tells the protocol's clients of the verbs.
"""
