"""What all tests share."""

from hypothesis import settings

# No test depends on how fast the machine is.
settings.register_profile("roslens", deadline=None)
settings.load_profile("roslens")
