"""``python -m roslens``."""

import gc

# Modules are never garbage, and looking for it while they are imported is a sixth of the start.
gc.disable()

from roslens.cli import main  # noqa: E402

gc.freeze()
gc.enable()

# Worker processes import this module again.
if __name__ == "__main__":
    main()
