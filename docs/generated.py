"""Pages of the site that are made from the code when it is built: nothing of them can be stale."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import roslens as rl
from roslens.cli import app
from roslens.tracing.suite import suite_schema

DOCS = Path(__file__).resolve().parent
SAMPLES = DOCS.parent / "data" / "samples"
NOUNS = {name: name for name in ("chains", "communication", "executors", "latency")}
NOUNS["leaks"] = "memory"
"""Notebooks, and what holds their estimates."""
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\./[^)#\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add them; MkDocs calls this."""
    for name, text in (
        ("cli", command_line()),
        ("suite_schema", schema_page(suite_schema())),
        ("metrics", metrics_page()),
    ):
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links out of docs/ lead to files of the repository, which the site does not have."""

    def named(link: re.Match[str]) -> str:
        target = (DOCS / Path(page.file.src_uri).parent / link[2]).resolve()
        if target.is_relative_to(DOCS) or not target.exists():
            return link[0]
        return f"{link[1]} (`{target.relative_to(DOCS.parent).as_posix()}`)"

    return _LINK.sub(named, markdown)


def command_line() -> str:
    """Every verb and option, as ``--help`` shows them."""
    text = str(app.generate_docs(output_format="markdown")).split("\n", 1)[1]
    # The ways to call a verb name it themselves, and a star in a default is no emphasis.
    text = re.sub(r"^roslens (\w+) (?=\1 )", "roslens ", text, flags=re.MULTILINE)
    return "# Command line\n" + text.replace("\n       roslens", "\nroslens").replace(
        ":*]", ":\\*]"
    )


def schema_page(schema: dict[str, Any]) -> str:
    """The fields of a suite, a table per object."""
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
    """Every metric of the reports over the samples, with its definition."""
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
