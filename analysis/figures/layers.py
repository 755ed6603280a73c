"""A drawing order for a directed graph: layers from left to right, few crossings within them.

The steps of Sugiyama, Tagawa and Toda (1981): edges that close a cycle are turned, vertices are put
into layers by the longest path, and ordered by the mean place of their neighbours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import TypeVar

Vertex = TypeVar("Vertex", bound=Hashable)
_SWEEPS = 8


def layered(
    vertices: Sequence[Vertex], edges: Sequence[tuple[Vertex, Vertex]]
) -> list[list[Vertex]]:
    """The vertices by layer, each layer from top to bottom.

    Every edge leads to a later layer but those that close a cycle.
    """
    forward = _without_cycles(vertices, edges)
    before: dict[Vertex, set[Vertex]] = defaultdict(set)
    after: dict[Vertex, set[Vertex]] = defaultdict(set)
    for a, b in forward:
        before[b].add(a)
        after[a].add(b)
    layer: dict[Vertex, int] = {}
    waiting = {v: len(before[v]) for v in vertices}
    ready = [v for v in vertices if not waiting[v]]
    while ready:
        vertex = ready.pop()
        layer[vertex] = 1 + max((layer[u] for u in before[vertex]), default=-1)
        for following in after[vertex]:
            waiting[following] -= 1
            if not waiting[following]:
                ready.append(following)
    layers: list[list[Vertex]] = [[] for _ in range(1 + max(layer.values(), default=-1))]
    for vertex in vertices:
        layers[layer[vertex]].append(vertex)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        _order(layers if down else layers[::-1], before if down else after)
    return layers


def _without_cycles(
    vertices: Sequence[Vertex], edges: Sequence[tuple[Vertex, Vertex]]
) -> set[tuple[Vertex, Vertex]]:
    """The edges, those that close a cycle turned; loops left out."""
    after: dict[Vertex, list[Vertex]] = defaultdict(list)
    for a, b in edges:
        after[a].append(b)
    found: set[tuple[Vertex, Vertex]] = set()
    state: dict[Vertex, int] = {}
    targets = {b for _, b in edges}
    # From where nothing arrives first, so that a cycle is cut where it was entered.
    for start in sorted(vertices, key=lambda v: v in targets):
        if start in state:
            continue
        state[start] = 1
        stack = [(start, iter(after[start]))]
        while stack:
            vertex, following = stack[-1]
            for target in following:
                if target == vertex:
                    continue
                if state.get(target) == 1:
                    found.add((target, vertex))
                    continue
                found.add((vertex, target))
                if target not in state:
                    state[target] = 1
                    stack.append((target, iter(after[target])))
                    break
            else:
                state[vertex] = 2
                stack.pop()
    return found


def _order(layers: list[list[Vertex]], neighbours: dict[Vertex, set[Vertex]]) -> None:
    place: dict[Vertex, float] = {}
    for layer in layers:
        mean = {}
        for index, vertex in enumerate(layer):
            known = [place[u] for u in neighbours[vertex] if u in place]
            mean[vertex] = sum(known) / len(known) if known else (index + 0.5) / len(layer)
        layer.sort(key=mean.__getitem__)
        place |= {v: (i + 0.5) / len(layer) for i, v in enumerate(layer)}
