"""Answer questions of programs that talk, over the Model Context Protocol (``roslens mcp``).

`asking` runs a verb and bounds the size of its answer; `server` offers the verbs to clients.
"""
