"""Read result files of other benchmark tools, one module per format."""
