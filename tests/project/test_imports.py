"""Test that no module imports itself by way of others, at once, in a function or for types."""

from __future__ import annotations

from graphlib import TopologicalSorter

import grimp


def test_the_import_graph_has_no_circle() -> None:
    """`prepare` raises a CycleError that names the modules of a circle."""
    graph = grimp.build_graph("roslens", cache_dir=None)
    # The graph includes the rooms at the root, which src/roslens links to.
    assert "roslens.analysis.reports.base" in graph.modules
    imported = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    TopologicalSorter(imported).prepare()
