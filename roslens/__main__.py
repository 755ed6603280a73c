"""``python -m roslens``."""

from roslens.cli import main

main()
