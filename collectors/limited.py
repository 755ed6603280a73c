"""The process in which `roslens.collectors.limits` has one recording collected."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from roslens.collectors.collection import collect
from roslens.collectors.excerpt import Excerpt
from roslens.tracing.recording import Recording, RoslensError


def main(text: str) -> int:
    """Collect what `text` (JSON) asks for; progress and errors as lines of JSON."""
    asked = json.loads(text)
    if asked["excerpt"] is not None:
        asked["excerpt"] = Excerpt(**asked["excerpt"])
    recording = Recording.at(Path(asked.pop("path")), Path(asked.pop("output")))

    def tell(*what: object) -> None:
        print(json.dumps(what), flush=True)

    try:
        collect(
            recording,
            **asked,
            force=True,
            progress=lambda step: tell("step", step),
            done=lambda done, total: tell("done", done, total),
        )
    except RoslensError as error:
        tell("error", error.exit_code, str(error))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
