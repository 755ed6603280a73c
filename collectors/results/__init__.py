"""Result files of other tools, one module per format, each to typed frames."""
