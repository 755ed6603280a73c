"""Write sampled call stacks of callbacks for flame graphs: speedscope, collapsed stacks, pprof."""

from __future__ import annotations

import gzip
import json

import polars as pl

from roslens.analysis.interop.protobuf import message_field, number_field, text_field, varint
from roslens.analysis.measures.stacks import CALLBACK, callback_title

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def collapsed(samples: pl.DataFrame) -> str:
    """Return a line per stack with its CPU time in ns: callback, outermost function, and so on.

    This is the format of Brendan Gregg's FlameGraph, which inferno, speedscope and the Firefox
    Profiler read.

    Parameters
    ----------
    samples
        Samples from `roslens.analysis.measures.stacks.inside`.
    """
    lines = (
        f"{';'.join(x.replace(';', ',') for x in (_title(about), *_outermost_first(path)))} {cpu}\n"
        for *about, path, cpu in _stacks(samples).iter_rows()
    )
    return "".join(lines)


def speedscope(samples: pl.DataFrame) -> str:
    """Return a profile per callback, and one of time outside of callbacks, weighted by CPU time.

    Parameters
    ----------
    samples
        As in `collapsed`.
    """
    frames: dict[str, int] = {}
    profiles: dict[str, tuple[list[list[int]], list[int]]] = {}
    for *about, path, cpu in _stacks(samples).iter_rows():
        stacks, weights = profiles.setdefault(_title(about), ([], []))
        stacks.append(
            [frames.setdefault(function, len(frames)) for function in _outermost_first(path)]
        )
        weights.append(cpu)
    shown = [
        {
            "type": "sampled",
            "name": name,
            "unit": "nanoseconds",
            "startValue": 0,
            "endValue": sum(weights),
            "samples": stacks,
            "weights": weights,
        }
        for name, (stacks, weights) in sorted(
            profiles.items(), key=lambda profile: -sum(profile[1][1])
        )
    ]
    shared = {"frames": [{"name": name} for name in frames]}
    return json.dumps({"$schema": _SCHEMA, "shared": shared, "profiles": shown})


def pprof(samples: pl.DataFrame) -> bytes:
    """Return CPU time by call stack for pprof, with the callback of each stack as a label.

    The format is ``proto/profile.proto`` of github.com/google/pprof.

    Parameters
    ----------
    samples
        As in `collapsed`.
    """
    texts, functions = {"": 0}, dict[str, int]()

    def number_of(word: str) -> int:
        return texts.setdefault(word, len(texts))

    parts = [
        message_field(
            1, number_field(1, number_of("cpu")) + number_field(2, number_of("nanoseconds"))
        )
    ]
    for *about, path, cpu in _stacks(samples).iter_rows():
        frames = (
            functions.setdefault(function, len(functions) + 1) for function in path.split("\n")
        )
        label = number_field(1, number_of("callback")) + number_field(2, number_of(_title(about)))
        sample = message_field(1, b"".join(map(varint, frames))) + number_field(2, cpu)
        parts.append(message_field(2, sample + message_field(3, label)))
    for name, key in functions.items():
        key_field = number_field(1, key)
        parts.append(message_field(4, key_field + message_field(4, key_field)))
        parts.append(message_field(5, key_field + number_field(2, number_of(name))))
    parts += [text_field(6, text) for text in texts]
    return gzip.compress(b"".join(parts), mtime=0)


def _stacks(samples: pl.DataFrame) -> pl.DataFrame:
    columns = (*CALLBACK, "path")
    return samples.group_by(columns).agg(pl.col("cpu_ns").sum()).sort(columns)


def _title(about: list[str | None]) -> str:
    kind, name, node = about
    return callback_title(kind, name, node) if kind else "outside of callbacks"


def _outermost_first(path: str) -> list[str]:
    return path.split("\n")[::-1]
