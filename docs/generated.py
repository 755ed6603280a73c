"""Generate pages of the site from the code when it is built, so that they cannot be stale."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import roslens as rl
from roslens.analysis.verdicts.statement import Statement
from roslens.cli import app
from roslens.studies.micro_ros.results.published import read_published
from roslens.studies.micro_ros.slopes import slopes_of, with_totals
from roslens.studies.micro_ros.statements import memory_statements, published_statements
from roslens.studies.storage.report import StorageParameters
from roslens.studies.storage.results.comparison import read_digests
from roslens.studies.storage.statements import comparisons, takeaways
from roslens.tracing.suite import suite_schema

DOCS = Path(__file__).resolve().parent
SAMPLES = DOCS.parent / "data" / "samples"
ROOM = DOCS.parent / "studies"
NOUNS = {name: name for name in ("chains", "communication", "executors", "latency")}
NOUNS["leaks"] = "memory"
"""Notebooks, and the attribute of recordings that holds their estimates."""
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\./[^)#\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages; MkDocs calls this."""
    for name, text in (
        ("cli", command_line()),
        ("suite_schema", schema_page(suite_schema())),
        ("metrics", metrics_page()),
        ("claims", claims_page()),
    ):
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turn links out of docs/ into file names, as the site does not have these files."""

    def named(link: re.Match[str]) -> str:
        target = (DOCS / Path(page.file.src_uri).parent / link[2]).resolve()
        if target.is_relative_to(DOCS) or not target.exists():
            return link[0]
        return f"{link[1]} (`{target.relative_to(DOCS.parent).as_posix()}`)"

    return _LINK.sub(named, markdown)


def command_line() -> str:
    """Return a page of every verb and option, as ``--help`` shows them."""
    text = str(app.generate_docs(output_format="markdown")).split("\n", 1)[1]
    # The usage lines repeat the verb's name, and a star in a default is no emphasis.
    text = re.sub(r"^roslens (\w+) (?=\1 )", "roslens ", text, flags=re.MULTILINE)
    return "# Command line\n" + text.replace("\n       roslens", "\nroslens").replace(
        ":*]", ":\\*]"
    )


def schema_page(schema: dict[str, Any]) -> str:
    """Return a page of the fields of a suite, with a table per object."""
    lines = ["# Suite files", "", "`roslens suites --schema` prints this for editors.", ""]
    for name, part in [("suite", schema), *schema.get("$defs", {}).items()]:
        if "properties" not in part:
            continue
        required = part.get("required", [])
        lines += [f"## {name}", "", _cell(part.get("description", "")), ""]
        lines += ["| field | type | default | meaning |", "|---|---|---|---|"]
        for field, about in part["properties"].items():
            default = "required" if field in required else json.dumps(about.get("default"))
            cells = (
                f"`{field}`",
                _type(about),
                _cell(default),
                _cell(about.get("description", "")),
            )
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def _type(about: dict[str, Any]) -> str:
    if "$ref" in about:
        name = about["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in about:
        return " or ".join(_type(part) for part in about["anyOf"])
    if "enum" in about:
        return ", ".join(f"`{value}`" for value in about["enum"])
    if about.get("type") == "array" and isinstance(about.get("items"), dict):
        return f"list of {_type(about['items'])}"
    return str(about.get("type", "any"))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def metrics_page() -> str:
    """Return a page of every metric of the reports on the samples, with its definition."""
    about = (
        "These are the metrics that notebooks write into `metrics.json`, with their definitions. "
        "Percentiles of other ranks have names of the same form."
    )
    lines = ["# Metrics", "", about, ""]
    for notebook, found in sorted(_metrics().items()):
        lines += [
            f"## {notebook}",
            "",
            "| metric | unit | better | definition |",
            "|---|---|---|---|",
        ]
        for name, (unit, better, definition) in sorted(found.items()):
            cells = (f"`{name}`", unit, better or "-", _cell(definition))
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def _metrics() -> dict[str, dict[str, tuple[str, str | None, str]]]:
    found: dict[str, dict[str, tuple[str, str | None, str]]] = {}
    with TemporaryDirectory() as folder:
        for sample in ("demo", "communication"):
            opened = rl.open(shutil.copytree(SAMPLES / sample, Path(folder, sample)))
            for notebook, noun in NOUNS.items():
                output = Path(folder, sample, notebook)
                getattr(opened, noun).with_parameters(output_dir=str(output)).write()
                written = json.loads((output / "metrics.json").read_text(encoding="utf-8"))
                for e in written["estimates"]:
                    told = (e["unit"], e["better"], e["definition"])
                    found.setdefault(notebook, {}).setdefault(e["metric"], told)
    return found


STUDIES = {
    "storage": ("SQLite against MCAP", "Foxglove, 2022"),
    "executors": ("Executors of rclcpp", "client library working group, 2025"),
    "micro_ros": ("micro-ROS", "eProsima"),
    "communication": ("Communication of rclcpp", "pull request 636, 2019"),
}
"""Title and origin of each study, by the name of its folder and page."""


def claims_page() -> str:
    """Return a page of the four publications' claims, and how figures and suites test them."""
    told: dict[str, list[Statement]] = {}
    for statement in _published_statements():
        told.setdefault(statement.claim, []).append(statement)
    about = (
        "What the publications say whose studies roslens repeats, in words of ours; what their own "
        "figures say of it by rules that were declared beforehand; and which suite records what "
        "tells on your machine, or why none does. `roslens report` then gives the verdict with its "
        "interval."
    )
    lines = ["# The four publications, claim by claim", "", about, ""]
    for study, (title, origin) in STUDIES.items():
        lines += [f"## {title}", "", f"{origin}; see [the page of the study](../{study}.md).", ""]
        lines += ["| where | it says | its own figures | recorded by |", "|---|---|---|---|"]
        claims = pl.read_csv(ROOM / study / "claims.csv", infer_schema=False)
        for row in claims.iter_rows(named=True):
            found = told.get(row["statement"] or "", []) if row["figures"] == "yes" else []
            figures = "; ".join(f"{x.subject}: {x.told} ({x.because})" for x in found)
            live = f"`{row['suite']}`" if row["suite"] else f"nothing: {row['why_not']}"
            cells = (row["place"], row["claim"], figures or f"none: {row['figures']}", live)
            lines.append(f"| {' | '.join(map(_cell, cells))} |")
        lines.append("")
    return "\n".join(lines)


def _published_statements() -> list[Statement]:
    digests = read_digests(ROOM / "storage" / "data")
    micro_ros = read_published(ROOM / "micro_ros" / "data")
    slopes = slopes_of(with_totals(micro_ros.memory))
    return [
        *takeaways(digests, comparisons(digests, StorageParameters().threshold)),
        *memory_statements(micro_ros.claims, slopes),
        *published_statements(slopes, micro_ros.throughput, micro_ros.latency),
    ]
