"""Test that comparisons name differing environments, and that other machines forbid a verdict."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import Roslens
from tests.samples import SAMPLES

from roslens.analysis.environment import differences, environment_of
from roslens.analysis.estimate import Metric
from roslens.analysis.metrics import Metrics, read_metrics, write_metrics
from roslens.analysis.statistics.over_runs import value_over_runs
from roslens.analysis.verdicts.comparison import compare_sides
from roslens.analysis.verdicts.sides import Side
from roslens.compare import run_compare
from roslens.recording.manifest import Manifest, read_manifest

CPU = Metric("cpu", "CPU time / time", "core")
MACHINE = {"cpu_model": "M", "governor": "g", "preemption": "full", "virtual_machine": "kvm"}

ALTERED = [
    ("host", {"cpu_model": "Apple M9"}, ("CPU", "Apple M9")),
    ("host", {"cpu_count": 16}, ("CPUs", "16")),
    ("host", {"governor": "powersave"}, ("governor", "powersave")),
    ("host", {"kernel": "5.4.0-rt"}, ("kernel", "5.4.0-rt")),
    ("host", {"preemption": "rt"}, ("preemption", "rt")),
    ("host", {"virtual_machine": "none"}, ("virtual machine", "none")),
    ("host", {"memory_bytes": 8 << 30}, ("memory", "8 GiB")),
    ("environment", {"ros_distro": "humble"}, ("ROS 2", "humble")),
    ("environment", {"rmw": "rmw_cyclonedds_cpp"}, ("RMW", "rmw_cyclonedds_cpp")),
    ("environment", {"packages": {"fastdds": "2.6.0"}}, ("fastdds", "2.6.0")),
    ("tracing", {"tracer_version": "2.9.1"}, ("tracer", "2.9.1")),
    ("", {"sampler": {"hz": 50, "rounds": 9, "overruns": 0, "cpu_fraction": 0}}, ("sampler", "50")),
]


def manifest_of_sample() -> Manifest:
    manifest = read_manifest(next((SAMPLES / "demo").glob("*/manifest.json")))
    host = manifest.host.model_copy(update=MACHINE)
    return manifest.model_copy(update={"host": host})


def altered(manifest: Manifest, part: str, change: Mapping[str, Any]) -> Manifest:
    data = manifest.model_dump()
    (data[part] if part else data).update(change)
    return Manifest.model_validate(data)


def written(folder: Path, manifest: Manifest, factor: float = 1.0, **more: Any) -> Path:
    values = [factor * v for v in (0.99, 1.0, 1.01, 1.0, 1.0)]
    about = {"cell": {}, "counts": True, "discarded_events": 0, "environment": 0, **more}
    runs = [{"run": f"r{i}", **about} for i in range(5)]
    estimates = [value_over_runs(CPU, {}, values, 5)]
    return write_metrics(Metrics(runs, {}, estimates, [], [environment_of(manifest)]), folder)


Shown = Callable[..., tuple[int, str, str, dict[str, Any]]]


@pytest.fixture
def shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shown:
    """Return a function that runs a comparison and gives exit code, text, Markdown and JSON."""

    def show(base: Path, new: Path, **more: Any) -> tuple[int, str, str, dict[str, Any]]:
        texts = []
        for markdown in (False, True):
            code = run_compare(
                base, new, (), "5%", json_file=tmp_path / "c.json", plot_file=None,
                markdown=markdown, **more,
            )  # fmt: skip
            # Markdown escapes characters that it would take for emphasis.
            texts.append(" ".join(capsys.readouterr().out.replace("\\", "").split()))
        return code, texts[0], texts[1], json.loads((tmp_path / "c.json").read_text())

    return show


@pytest.mark.parametrize(("part", "change", "named"), ALTERED, ids=[x[2][0] for x in ALTERED])
def test_each_altered_field_is_named(part, change, named, shown: Shown, tmp_path: Path) -> None:
    name, value = named
    manifest = manifest_of_sample()
    base = written(tmp_path / "base", manifest)
    new = written(tmp_path / "new", altered(manifest, part, change), 1.2)
    code, text, markdown, result = shown(base, new)
    for output in (text, markdown):
        assert f"{name} " in output
        assert value in output.partition(f"{name} ")[2]
    (difference,) = result["environment"]["differences"]
    assert difference["name"] == name
    assert value in difference["new"][0]
    if part == "host":
        assert code == 3
        assert result["comparisons"][0]["verdict"] == "not_comparable"
        assert "regression" not in text + markdown
        code, text, _, result = shown(base, new, across_machines=True)
    assert code == 1
    assert result["comparisons"][0]["verdict"] == "regression"


def test_the_same_environment_is_not_spoken_of(shown: Shown, tmp_path: Path) -> None:
    manifest = manifest_of_sample()
    base, new = (written(tmp_path / name, manifest) for name in ("base", "new"))
    code, text, _, result = shown(base, new)
    assert code == 0
    assert "differ" not in text.replace("no_difference", "")
    assert result["environment"]["differences"] == []
    # Each estimate says for which environment it holds.
    data = json.loads(base.read_text())
    assert data["estimates"][0]["environments"] == [0]
    assert data["environments"][0]["machine"]["CPU"] == "M"
    assert read_metrics(base).environments == [environment_of(manifest)]


def test_what_one_side_does_not_tell_is_named_and_no_difference(
    shown: Shown, tmp_path: Path
) -> None:
    manifest = manifest_of_sample()
    base = written(tmp_path / "base", altered(manifest, "host", {"preemption": None}))
    new = written(tmp_path / "new", manifest)
    code, text, markdown, _ = shown(base, new)
    assert code == 0
    for output in (text, markdown):
        assert "not known of the machine of BASE: preemption" in output


def test_disturbed_runs_are_named_on_both_sides(shown: Shown, tmp_path: Path) -> None:
    manifest = manifest_of_sample()
    base = written(tmp_path / "base", manifest, disturbances=["cores were slowed"])
    new = written(tmp_path / "new", manifest, disturbances=["other programs used 50 %"])
    _, text, markdown, result = shown(base, new)
    for output in (text, markdown):
        assert "5 of 5 runs of BASE disturbed: r0: cores were slowed" in output
        assert "5 of 5 runs of NEW disturbed: r0: other programs used 50 %" in output
    assert result["new"]["disturbed"]["r3"] == ["other programs used 50 %"]


def test_of_many_disturbed_runs_five_are_named() -> None:
    runs = {f"r{i}": ["heat"] for i in range(20)}
    side = Side("side", [value_over_runs(CPU, {}, [1.0, 1.1, 1.2], 3)], [{}], 20, disturbed=runs)
    notes = compare_sides(side, replace(side, disturbed={}), ["cpu"], 0.05).notes
    (note,) = (note for note in notes if "disturbed" in note)
    assert note.endswith("r3: heat; r4: heat; and 15 more")


def test_packages_that_only_one_side_has_are_no_other_versions() -> None:
    left = {"packages": {"rclcpp": "1", "a": "1"}}
    right = {"packages": {"rclcpp": "2", "b": "1"}}
    (difference,) = differences([left, left], [right]).differences
    assert str(difference) == "rclcpp 1 -> 2"


def test_the_same_machines_in_other_shares_are_other_machines() -> None:
    """By hand: 8 and 2 of 10 runs against 2 and 8; 4 and 1 of 5 are the shares of 8 and 2 of 10."""
    a, b = ({"machine": {"CPU": cpu}, "software": {"RMW": cpu}} for cpu in "AB")
    found = differences([a] * 8 + [b] * 2, [a] * 2 + [b] * 8)
    assert found.of_machine
    (told,) = found.in_words()
    assert told == (
        "BASE and NEW differ in machine: CPU 8 of 10 runs: A and 2 of 10 runs: B -> "
        "2 of 10 runs: A and 8 of 10 runs: B"
    )
    assert not differences([a] * 8 + [b] * 2, [b] + [a] * 4).differences
    # One run that failed does not make other machines, two do.
    assert not differences([a] * 5 + [b] * 5, [a] * 5 + [b] * 4).differences
    assert differences([a] * 5 + [b] * 5, [a] * 8 + [b] * 2).of_machine


@pytest.mark.recording
def test_recordings_of_another_kernel(roslens: Roslens, tmp_path: Path) -> None:
    for side in ("base", "new"):
        shutil.copytree(SAMPLES / "communication", tmp_path / side)
    for path in (tmp_path / "new").rglob("manifest.json"):
        data = json.loads(path.read_text())
        data["host"]["kernel"] = "5.4.0-rt"
        path.write_text(json.dumps(data))
    run = roslens("compare", tmp_path / "base", tmp_path / "new", "--metric", "latency_p50")
    assert run.returncode == 3, run.stderr
    assert "-> 5.4.0-rt" in run.stdout
    assert "OTHER MACHINES" in run.stdout
