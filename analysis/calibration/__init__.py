"""Coverage of every interval, false alarms and power of every verdict, by simulation."""
