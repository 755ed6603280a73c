"""Read the static memory of a firmware from its ELF file by symbol, less that of a baseline.

Definition of the published study: static = ``.data`` + ``.bss``, less those of the same program
without the application.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from roslens.recording import UsageError

SYMBOLS = pl.Schema(
    {"section": pl.String, "object": pl.String, "symbol": pl.String, "bytes": pl.Int64}
)

_GLOBAL = "(global symbols)"
# This includes subsections that the linker kept apart.
_STATIC = re.compile(r"\.(data|bss)(\.|$)")


@dataclass(frozen=True)
class ElfMemory:
    """Static memory that a firmware needs on a device.

    Attributes
    ----------
    machine
        Text such as ``EM_ARM, 32 bit, little-endian``.
    static_bytes
        ``.data`` + ``.bss``.
    symbols
        Objects and functions with a size: ``section``, ``object`` (source file, for local
        symbols), ``symbol``, ``bytes``.
    """

    path: Path
    machine: str
    static_bytes: int
    symbols: pl.DataFrame


def read_elf(path: Path) -> ElfMemory:
    """Read an ELF file.

    Raises
    ------
    UsageError
        The file is not an ELF file, or is cut off.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            return _read(path, ELFFile(stream), size)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    # In a damaged file, the library raises any of these.
    except (ELFError, ValueError, KeyError, AttributeError, TypeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path}: no readable ELF file ({type(error).__name__}: {error}); is it cut off?"
        ) from error


def check_baseline(firmware: ElfMemory, baseline: ElfMemory) -> None:
    """Refuse a baseline of another machine.

    Raises
    ------
    UsageError
        The baseline is of another machine.
    """
    if baseline.machine != firmware.machine:
        raise UsageError(
            f"{baseline.path}: {baseline.machine} is no baseline for {firmware.path.name}: "
            f"{firmware.machine}"
        )


def differences(firmware: ElfMemory, baseline: ElfMemory) -> pl.DataFrame:
    """Return the bytes of the firmware less those of its baseline, by symbol.

    Returns
    -------
    polars.DataFrame
        ``section``, ``object``, ``symbol``, ``bytes``, ``baseline_bytes``, ``difference_bytes``;
        the largest difference first, without symbols that do not differ.
    """
    keys = ["section", "object", "symbol"]
    sums = [elf.symbols.group_by(keys).agg(pl.col("bytes").sum()) for elf in (firmware, baseline)]
    joined = sums[0].join(
        sums[1].rename({"bytes": "baseline_bytes"}), on=keys, how="full", coalesce=True
    )
    return (
        joined.with_columns(pl.col("bytes", "baseline_bytes").fill_null(0))
        .with_columns((pl.col("bytes") - pl.col("baseline_bytes")).alias("difference_bytes"))
        .filter(pl.col("difference_bytes") != 0)
        .sort(pl.col("difference_bytes").abs(), *keys, descending=[True, False, False, False])
    )


def _read(path: Path, elf: Any, size: int) -> ElfMemory:
    in_memory, names = {}, {}
    for index, section in enumerate(elf.iter_sections()):
        names[index] = section.name
        kind = section["sh_type"]
        if kind != "SHT_NOBITS" and section["sh_offset"] + section["sh_size"] > size:
            raise UsageError(f"{path}: section {section.name} reaches beyond the end; cut off?")
        if section["sh_flags"] & SH_FLAGS.SHF_ALLOC:
            in_memory[index] = section["sh_size"]
    if not in_memory:
        raise UsageError(f"{path}: has no section in memory; give the linked firmware")
    order = "little-endian" if elf.little_endian else "big-endian"
    return ElfMemory(
        path,
        f"{elf['e_machine']}, {elf.elfclass} bit, {order}",
        sum(bytes_ for index, bytes_ in in_memory.items() if _STATIC.match(names[index])),
        pl.DataFrame(_symbols(elf, names), schema=SYMBOLS, orient="row"),
    )


def _symbols(elf: Any, names: dict[int, str]) -> list[tuple[str, str, str, int]]:
    table = elf.get_section_by_name(".symtab")
    if table is None:
        return []
    symbols, source = [], ""
    for symbol in table.iter_symbols():
        kind, bind = symbol["st_info"]["type"], symbol["st_info"]["bind"]
        if kind == "STT_FILE":
            source = symbol.name
        if kind not in ("STT_OBJECT", "STT_FUNC") or not symbol["st_size"]:
            continue
        section = names.get(symbol["st_shndx"], str(symbol["st_shndx"]))
        # Local symbols follow the name of their source file, global ones come after all files.
        origin = source if bind == "STB_LOCAL" else _GLOBAL
        symbols.append((section, origin, symbol.name, symbol["st_size"]))
    return symbols
