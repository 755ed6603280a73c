"""What programs do while they run: their events, figures of the last seconds, and triggers."""
