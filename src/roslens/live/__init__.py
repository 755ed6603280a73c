"""Watch programs while they run: their events, figures of the last seconds, and triggers."""
