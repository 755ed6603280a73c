"""Whether memory climbs."""
