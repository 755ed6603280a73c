"""Test hostile YAML where people write suites and budgets: one line, code 2, in bounded time."""

import resource
from pathlib import Path

import pytest
from tests.programs import roslens

CPU_SECONDS = 60
DATA_BYTES = 1_500_000_000
SUITE = "name: x\nworkload: {command: ['true'], ros: none}\n"


def nested(first: str, level: str) -> str:
    """Return eleven levels, each naming the one before it nine times: 9^11 of the first."""
    lines = [f"a0: &a0 {first}"]
    lines += [f"a{i}: &a{i} {level.format(', '.join([f'*a{i - 1}'] * 9))}" for i in range(1, 12)]
    return "\n".join(lines) + "\n"


HOSTILE = {
    "lists within lists": nested("[x]", "[{}]") + SUITE,
    "lists within lists, as levels": nested("[x]", "[{}]") + SUITE + "factors: {a: *a11}\n",
    "mappings within mappings": nested("{x: 1}", "{{<<: [{}]}}"),
    "one mapping many times": "a: &a {x: 1}\nb: {<<: [" + ",".join(["*a"] * 50_000) + "]}\n",
    "many keys": "".join(f"k{i}: 1\n" for i in range(60_000)),
    "depth": "[" * 100_000,
    "length": "a: [" + "1," * 600_000 + "1]\n",
    "combinations": SUITE
    + f"factors: {{{', '.join(f'f{i}: {list(range(100))}' for i in range(5))}}}",
    "repetitions": SUITE + "repetitions: 300000000\n",
}


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_DATA, (DATA_BYTES, DATA_BYTES))


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_yaml_is_refused_in_one_line(tmp_path: Path, what: str) -> None:
    file = tmp_path / "given.yaml"
    file.write_text(HOSTILE[what])
    as_suite = ["record", "--suite", str(file), "--dry-run"]
    as_budgets = ["check", str(file), str(tmp_path)]
    for arguments in (as_suite, as_budgets):
        done = roslens(*arguments, timeout=300, preexec_fn=limited, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith("roslens: error: ")
        assert len(done.stderr.splitlines()) == 1
        assert not done.stdout
