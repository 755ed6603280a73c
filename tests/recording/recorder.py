"""Record a command in a separate process: ``recorder.py OUTPUT JSON COMMAND...``.

Tests interrupt, kill or starve this recorder. It ends as the command line does: errors on one line,
documented exit codes.
"""

import json
import sys
from pathlib import Path

from roslens.recording import RoslensError
from roslens.tracing.command import exit_code, record_command
from roslens.tracing.lttng import TracingOptions


def main() -> int:
    output, settings, *command = sys.argv[1:]
    given = json.loads(settings)
    options = TracingOptions(**given.pop("options", {}))
    try:
        _, manifest = record_command(command, Path(output), options=options, **given)
    except RoslensError as error:
        print(f"roslens: error: {error}", file=sys.stderr)
        return error.exit_code
    return exit_code(manifest)


if __name__ == "__main__":
    sys.exit(main())
