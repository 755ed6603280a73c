"""Test that a manifest names the run's software, and that the RMW's configuration is kept."""

import subprocess

import pytest

from roslens.tracing.command import record_command
from roslens.tracing.lttng.tool import lttng_version
from roslens.tracing.provenance import copy_configuration, system_packages

pytestmark = pytest.mark.live


def test_configuration_is_copied_as_the_middlewares_name_it(tmp_path):
    first, second = tmp_path / "one.xml", tmp_path / "a folder" / "two.xml"
    second.parent.mkdir()
    first.write_text("<one/>")
    second.write_text("<two/>")
    (tmp_path / "run").mkdir()
    copied, complaints = copy_configuration(
        {
            # Cyclone DDS takes a list of URIs and paths, or the text itself.
            "CYCLONEDDS_URI": f"file://{first},file://{str(second).replace(' ', '%20')}",
            "FASTDDS_DEFAULT_PROFILES_FILE": str(tmp_path / "missing.xml"),
            "FASTRTPS_DEFAULT_PROFILES_FILE": str(first),
            "RMW_CONNEXT_CYCLONE_URI": "<CycloneDDS/>",
            "ZENOH_SESSION_CONFIG_URI": "",
            "UNRELATED": str(first),
        },
        tmp_path / "run",
    )
    texts = {name: (tmp_path / "run" / name).read_text() for name in copied}
    assert texts == {
        "provenance/CYCLONEDDS_URI-one.xml": "<one/>",
        "provenance/CYCLONEDDS_URI-two.xml": "<two/>",
        "provenance/FASTRTPS_DEFAULT_PROFILES_FILE-one.xml": "<one/>",
        "provenance/RMW_CONNEXT_CYCLONE_URI.xml": "<CycloneDDS/>",
    }
    (complaint,) = complaints
    assert complaint == (
        "FASTDDS_DEFAULT_PROFILES_FILE: missing.xml could not be copied: no such file or directory"
    )


def test_the_manifest_names_the_software(tmp_path, monkeypatch):
    profile = tmp_path / "profile.xml"
    profile.write_text("<dds/>")
    monkeypatch.setenv("FASTDDS_DEFAULT_PROFILES_FILE", str(profile))
    folder, manifest = record_command(["true"], tmp_path / "run", ros="none")
    environment = manifest.environment
    assert environment.configuration == ["provenance/FASTDDS_DEFAULT_PROFILES_FILE-profile.xml"]
    assert (folder / environment.configuration[0]).read_text() == "<dds/>"
    assert str(tmp_path) not in (folder / "manifest.json").read_text()
    # The package manager's version is compared with the program's own.
    if system_packages():
        assert environment.system_packages["lttng-tools"].startswith(lttng_version())
    first = subprocess.check_output(["cc", "--version"], text=True)
    assert environment.compiler == first.splitlines()[0].strip()
    assert environment.system
