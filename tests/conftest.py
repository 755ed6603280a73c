"""What all tests share."""

from hypothesis import HealthCheck, settings

# No test depends on how fast the machine is.
SLOW = [HealthCheck.too_slow]
# The same examples each time: whoever changes something else meets no example that nobody has
# seen. New ones are looked for with --hypothesis-profile=search, as many as one has time for.
settings.register_profile(
    "roslens", deadline=None, derandomize=True, database=None, suppress_health_check=SLOW
)
settings.register_profile(
    "search", deadline=None, max_examples=2000, print_blob=True, suppress_health_check=SLOW
)
settings.load_profile("roslens")
