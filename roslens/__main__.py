"""``python -m roslens``."""

from roslens.cli import main

# Worker processes import this module again.
if __name__ == "__main__":
    main()
