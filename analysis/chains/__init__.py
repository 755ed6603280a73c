"""Report on end-to-end chains: response times, where the time goes, deadlines."""
