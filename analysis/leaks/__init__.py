"""Judge whether memory climbs."""
