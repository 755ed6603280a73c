"""Begin a campaign, or resume the one named: ``campaign_runner.py ROOT NAME [SUITE.yaml]``.

Tests kill this program. It ends as the command line does.
"""

import sys
from pathlib import Path

from roslens.recording import RoslensError
from roslens.tracing.campaign import resume_campaign, run_campaign
from roslens.tracing.plan import PLAN_NAME
from roslens.tracing.suite import load_suite


def main() -> int:
    root, name, suite_file = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    suite, text = load_suite(suite_file)
    folder = root / suite.name / name
    try:
        if (folder / PLAN_NAME).is_file():
            result = resume_campaign(folder)
        else:
            result = run_campaign(suite, text, root=root, name=name, seed=11)
    except RoslensError as error:
        print(f"roslens: error: {error}", file=sys.stderr)
        return error.exit_code
    print(result.summary(), file=sys.stderr)
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
