"""Test result files of test benches, written from the description of their formats."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from roslens.recording import UsageError
from roslens.studies.micro_ros.results.bench import read_benchmark, read_profiling
from roslens.studies.micro_ros.results.capture import captured_rate, read_capture
from roslens.studies.micro_ros.results.elf import check_baseline, differences, read_elf
from roslens.studies.micro_ros.results.exchanges import read_counted, read_exchanges
from roslens.studies.micro_ros.results.folder import read_all
from roslens.studies.micro_ros.results.tasks import read_heap, read_tasks
from roslens.studies.micro_ros.tables import throughput_table

RATES = """\
ek_ra6m5 Throughput/0: Serial
\tTopic size: 10 B
\tRate: 327 Hz
\tThroughput: 3270 Bps
ek_ra6m5 Throughput/1: Serial
\tTopic size: 400 B
\tRate: 27 Hz
\tThroughput: 10800 Bps
"""
TIMES = """\
ek_ra6m5 Latency/0: CAN-FD
\tClient publish time: 1.29 ms
\tAgent publish time: 2.41 ms
\tRTT: 3.70 ms
"""
FAILED = "ek_ra6m5 Latency/1: USB-CDC\n\tFAILED\n"
PROFILE = """\
ek_ra6m5 MemoryPublisher/{count}
\tused static: {static} B
\t.text: 90112 B
\t.data: 512 B
\t.bss: 40960 B
\tmax stack: 1988 B
\tabsolute dyn: {dynamic} B
\tdyn: {live} B
"""


def written(folder: Path, text: str, name: str = "file.txt") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


# ---------------------------------------------------------------- the bench's own files


def test_a_benchmark_file(tmp_path: Path) -> None:
    throughput, latency, failures = read_benchmark(written(tmp_path, RATES + TIMES + FAILED))
    assert throughput.rows() == [
        ("ek_ra6m5", "Serial", 10, 3270.0),
        ("ek_ra6m5", "Serial", 400, 10800.0),
    ]
    (row,) = latency.rows(named=True)
    assert (row["client_ns"], row["agent_ns"], row["rtt_ns"]) == pytest.approx(
        (1.29e6, 2.41e6, 3.7e6)
    )
    assert row["resolution_ns"] == pytest.approx(1e4)
    assert failures == [(13, "ek_ra6m5 Latency/1: USB-CDC")]


def test_a_transport_that_carried_nothing_is_a_row_of_the_table(tmp_path: Path) -> None:
    none = RATES.replace("327 Hz", "0 Hz").replace("3270 Bps", "0 Bps")
    written(tmp_path, none, "benchmark_out.txt")
    rows = throughput_table(read_all([("board", tmp_path)]).throughput, {}).rows
    assert rows == [
        ["Serial", "10", "0.00", "0.000", "-", "-"],
        # 10,800 B/s; one more message of 400 B per second is 3.7 % of that.
        ["Serial", "400", "10.80", "0.086", "+0.400 (3.7 %)", "-"],
    ]


def test_a_profiling_file(tmp_path: Path) -> None:
    text = PROFILE.format(count=1, static=16105, dynamic=896, live=0)
    failed = "ek_ra6m5 MemoryPublisher/2\n\tFAILED\n"
    memory, failures = read_profiling(written(tmp_path, text + failed))
    assert memory.rows() == [("ek_ra6m5", "MemoryPublisher/1", 16105, 1988, 896, 0)]
    assert len(failures) == 1
    with pytest.raises(UsageError, match="used static of -16105 B: it cannot be negative"):
        read_profiling(written(tmp_path, text.replace("16105", "-16105")))
    with pytest.raises(UsageError, match=r"MemoryPublisher/1' twice"):
        read_profiling(written(tmp_path, text + text))
    with pytest.raises(UsageError, match=r"there is no dyn"):
        read_profiling(written(tmp_path, text.replace("\tdyn: 0 B\n", "")))


def test_a_board_s_folder_becomes_the_common_frames(tmp_path: Path) -> None:
    written(tmp_path, RATES + TIMES + FAILED, "benchmark_out.txt")
    profiles = [
        PROFILE.format(count=n, static=15861 + 244 * n, dynamic=600 + 296 * n, live=8 * (n == 3))
        for n in (1, 2, 3)
    ]
    written(tmp_path, "".join(profiles) + PROFILE.format(count="x", static=1, dynamic=1, live=0),
            "profiling_out.txt")  # fmt: skip
    results = read_all([("board", tmp_path)])
    static = results.memory.filter(pl.col("memory") == "static")
    assert static.select("entity", "count", "bytes").rows() == [
        ("publisher", n, 15861.0 + 244 * n) for n in (1, 2, 3)
    ]
    assert results.live["live_bytes"].to_list() == [0, 0, 8, 0]
    assert results.throughput["truncation_bytes_per_s"].to_list() == [10.0, 400.0]
    assert results.findings["what"].to_list() == [
        "benchmark_out.txt, line 13: 'ek_ra6m5 Latency/1: USB-CDC' FAILED: it has no figures",
        (
            "profiling_out.txt: 'ek_ra6m5 MemoryPublisher/x' names no entity with a number "
            "(such as Publisher/3): it enters no slope"
        ),
    ]


def test_a_file_that_is_refused_does_not_take_the_others_along(tmp_path: Path) -> None:
    written(tmp_path, RATES + RATES, "benchmark_out.txt")
    written(tmp_path, PROFILE.format(count=1, static=1, dynamic=1, live=0), "profiling_out.txt")
    results = read_all([("board", tmp_path)])
    assert results.memory.height == 3
    (finding,) = results.findings["what"]
    assert "twice (lines 1 and 9)" in finding
    assert str(tmp_path) not in finding


def test_times_of_a_copy_are_no_further_run(tmp_path: Path) -> None:
    for name in ("a", "b"):
        folder = tmp_path / name / "transport" / "udp"
        folder.mkdir(parents=True)
        written(tmp_path / name, RATES + TIMES, "benchmark_out.txt")
        # A program's use of memory is the same in every run.
        written(tmp_path / name, PROFILE.format(count=1, static=1, dynamic=1, live=0),
                "profiling_out.txt")  # fmt: skip
        written(folder, EXCHANGES, "exchanges.csv")
        written(folder, COUNTED, "throughput.csv")
    results = read_all([(name, tmp_path / name) for name in ("a", "b")])
    for frame in (results.throughput, results.latency, results.exchanges):
        assert set(frame["source"]) == {"a"}
    assert set(results.memory["source"]) == {"a", "b"}
    copies = results.findings.filter(pl.col("what").str.contains("a copy is no further run"))
    assert copies["source"].to_list() == ["b"] * 3


# ---------------------------------------------------------------- stacks


def test_high_water_marks_are_words(tmp_path: Path) -> None:
    text = "app\tX\t1\t764\t1\r\nIDLE\tR\t0\t100\t2\r\n"
    by_task = read_tasks(written(tmp_path, text), {"app": 1024})
    # 1,024 - 764 words.
    assert by_task == {"app": 1040, "IDLE": None}


# ---------------------------------------------------------------- allocators


HEAP = """\
= Start
@ a.elf:[0x10] + 0x2000 0x20
@ a.elf:[0x14] + 0x3000 0x8
@ a.elf:[0x18] < 0x3000
@ a.elf:[0x18] > 0x4000 0x10
@ a.elf:[0x1c] - 0x2000
= End
"""


def test_an_allocator_log(tmp_path: Path) -> None:
    # By hand: 32 + 8 + 16 requested; at most 48 live at once; 16 left.
    log = read_heap(written(tmp_path, HEAP))
    assert (log.requested_bytes, log.peak_bytes, log.live_bytes) == (56, 48, 16)
    assert log.live_by_caller == {"a.elf:[0x18]": 16}


def test_a_log_that_glibc_wrote(tmp_path: Path) -> None:
    """The format is glibc's: the output of glibc's own mtrace is read alike."""
    source = written(
        tmp_path,
        "#include <mcheck.h>\n#include <stdlib.h>\nint main(void){mtrace();"
        "char*a=malloc(100);char*b=calloc(3,7);b=realloc(b,1000);free(a);"
        "muntrace();return b==0;}\n",
        "p.c",
    )
    program = tmp_path / "p"
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    subprocess.run(["cc", "-O0", str(source), "-o", str(program)], check=True)
    library = next(Path("/usr/lib").glob("*/libc_malloc_debug.so*"), None)
    log = tmp_path / "log"
    variables = {"MALLOC_TRACE": str(log)}
    if library is not None:
        variables["LD_PRELOAD"] = str(library)
    subprocess.run([str(program)], env=variables, check=True)
    if not log.is_file():
        pytest.skip("this C library has no mtrace")
    heap = read_heap(log)
    assert (heap.requested_bytes, heap.live_bytes) == (100 + 21 + 1000, 1000)


# ---------------------------------------------------------------- ELF files


@pytest.fixture(scope="module")
def elves(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Compile a baseline, and a program with 1,000 bytes more of .bss and 64 of .data."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("elf")
    common = "int main(void){return 0;}\n"
    more = "char pool[1000]; static char own[64]={1}; char *use(int i){return i?own:pool;}\n"
    programs = []
    for name, text in (("baseline", common), ("firmware", common + more)):
        source = written(folder, text, f"{name}.c")
        programs.append(folder / f"{name}.elf")
        subprocess.run(["cc", "-O0", "-c", str(source), "-o", str(programs[-1])], check=True)
    return programs[0], programs[1]


def test_static_memory_is_the_difference_to_the_baseline(elves: tuple[Path, Path]) -> None:
    baseline, firmware = (read_elf(path) for path in elves)
    assert firmware.static_bytes - baseline.static_bytes == 1064
    by_symbol = {
        (r["object"], r["symbol"]): r["difference_bytes"]
        for r in differences(firmware, baseline).iter_rows(named=True)
    }
    assert by_symbol["(global symbols)", "pool"] == 1000
    assert by_symbol["firmware.c", "own"] == 64


def test_elf_files_that_are_refused(elves: tuple[Path, Path], tmp_path: Path) -> None:
    whole = elves[1].read_bytes()
    for size in (0, 3, 40, len(whole) // 2, len(whole) - 100):
        cut = tmp_path / f"{size}.elf"
        cut.write_bytes(whole[:size])
        with pytest.raises(UsageError, match=r"cut off\?"):
            read_elf(cut)
    # The same file claims to be for a 386.
    foreign = bytearray(whole)
    foreign[18:20] = b"\x03\x00"
    path = tmp_path / "other.elf"
    path.write_bytes(foreign)
    with pytest.raises(UsageError, match="is no baseline for"):
        check_baseline(read_elf(elves[1]), read_elf(path))


def memory_folder(folder: Path, elves: tuple[Path, Path], *, baseline: bool) -> Path:
    entity = folder / "memory" / "publisher"
    for count in (1, 2, 3):
        of_count = entity / str(count)
        of_count.mkdir(parents=True)
        shutil.copy(elves[1], of_count / "firmware.elf")
        written(of_count, "app\tX\t1\t764\t1\r\n", "tasks.txt")
        written(of_count, json.dumps({"app": 1024}), "stacks.json")
        written(of_count, HEAP, "heap.mtrace")
    if baseline:
        shutil.copy(elves[0], entity / "baseline.elf")
    return folder


def test_without_a_baseline_static_memory_is_refused_and_the_rest_stays(
    elves: tuple[Path, Path], tmp_path: Path
) -> None:
    results = read_all([("run", memory_folder(tmp_path, elves, baseline=False))])
    assert set(results.memory["memory"]) == {"stack", "dynamic"}
    (finding,) = results.findings["what"]
    assert finding.startswith("memory/publisher: no baseline.elf")


def test_one_cut_off_log_costs_only_itself(elves: tuple[Path, Path], tmp_path: Path) -> None:
    memory_folder(tmp_path, elves, baseline=True)
    log = tmp_path / "memory" / "publisher" / "2" / "heap.mtrace"
    log.write_text(HEAP.removesuffix("= End\n"))
    (tmp_path / "memory" / "publisher" / "3" / "stacks.json").unlink()
    results = read_all([("run", tmp_path)])
    counts = {
        kind: group["count"].to_list()
        for (kind,), group in results.memory.group_by("memory", maintain_order=True)
    }
    assert counts == {"static": [1, 2, 3], "stack": [1, 2], "dynamic": [1, 3]}
    assert results.findings.height == 2
    assert "heap.mtrace: does not end with '= End'" in results.findings["what"][0]
    assert "no stack size of task app" in results.findings["what"][1]


# ---------------------------------------------------------------- exchanges and captures


EXCHANGES = """\
sequence,client_sent_ns,agent_received_ns,agent_sent_ns,client_received_ns,rtt_ns,rtt_uncertainty_ns
0,100,1100,1150,250,150,2
1,1100,2100,2150,1250,150,2
"""
COUNTED = """\
payload_bytes,sent,received,received_bytes,first_ns,last_ns
10,101,101,1010,0,1000000000
100,50,1,100,5,5
"""


def test_exchanges_and_counts(tmp_path: Path) -> None:
    assert read_exchanges(written(tmp_path, EXCHANGES)).height == 2
    folder = tmp_path / "run" / "transport" / "udp"
    folder.mkdir(parents=True)
    written(folder, EXCHANGES, "exchanges.csv")
    written(folder, COUNTED, "throughput.csv")
    results = read_all([("run", tmp_path / "run")])
    # 100 intervals of 10 bytes in a second.
    assert results.throughput.rows() == [("run", "udp", 10, 1000.0, 0.0)]
    (finding,) = results.findings["what"]
    assert "payload 100 B: fewer than two messages" in finding


def test_an_emulated_line_has_no_throughput(tmp_path: Path) -> None:
    folder = tmp_path / "transport" / "uart"
    folder.mkdir(parents=True)
    written(folder, json.dumps({"link": "emulated UART"}), "about.json")
    written(folder, EXCHANGES, "exchanges.csv")
    written(folder, COUNTED, "throughput.csv")
    results = read_all([("run", tmp_path)])
    assert results.throughput.height == 0
    assert "an emulated UART has no line rate" in results.findings["what"][0]


def test_counts_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    for wrong in (
        COUNTED.replace("1010", "101"),
        COUNTED.replace("101,101", "99,101"),
        COUNTED.replace("0,1000000000", "9,8"),
    ):
        with pytest.raises(UsageError, match="do not belong together"):
            read_counted(written(tmp_path, wrong))


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (
            "(10.0) can0 123#DEADBEEF\n(10.5) can0 123##1AABBCC\n(11.0) can1 1ABCDEF0#R\n",
            [("can0", 2, 7, 6.0), ("can1", 1, 0, None)],
        ),
        (
            (
                "10.000000 IP 10.0.0.1.7400 > 10.0.0.2.8888: UDP, length 42\n"
                "10.250000 IP 10.0.0.1.7400 > 10.0.0.2.8888: UDP, length 10\n"
            ),
            [("10.0.0.1.7400 > 10.0.0.2.8888", 2, 52, 40.0)],
        ),
        (
            "10.0 TX 01 02 0a\n10.1 RX 7e\n10.2 TX 01 02 0a ff\n",
            [("TX", 2, 7, 20.0), ("RX", 1, 1, None)],
        ),
    ],
)
def test_captures(
    tmp_path: Path, text: str, rows: list[tuple[str, int, int, float | None]]
) -> None:
    # By hand: the first frame starts the clock, the bytes of the others count.
    table = captured_rate(read_capture(written(tmp_path, text)))
    for row, (channel, frames, size, rate) in zip(table.iter_rows(named=True), rows, strict=True):
        assert (row["channel"], row["frames"], row["bytes"]) == (channel, frames, size)
        assert row["bytes_per_s"] == (None if rate is None else pytest.approx(rate))


# ---------------------------------------------------------------- files that are refused


REFUSED: dict[Callable[[Path], object], list[tuple[str, str]]] = {
    read_benchmark: [
        ("", "is empty"),
        (RATES[:-23], "line 5: 'ek_ra6m5 Throughput/1: Serial': there is no Throughput"),
        (RATES[:-6], "line 8: 'Throughput: 1080' is no result; the file is cut off"),
        ("\tRate: 3 Hz\n" + RATES, "line 1: results without the heading"),
        (RATES + RATES, r"Throughput/0: Serial' twice \(lines 1 and 9\)"),
        (
            RATES.replace("\tRate: 327 Hz\n", "\tRate: 327 Hz\n\tRate: 44 Hz\n"),
            r"line 4: 'Rate' twice below .* lines of two boards are mixed",
        ),
        (RATES.replace("3270 Bps", "3270 bps"), "Throughput in bps, not in Bps; is it bits"),
        (RATES.replace("3270 Bps", "26160 Bps"), r"8 times as much: bits"),
        (RATES.replace("3270 Bps", "3271 Bps"), "3271 Bps is not 327 Hz x 10 B"),
        (RATES.replace("327 Hz", "-327 Hz"), "line 3: Rate of -327 Hz: it cannot be negative"),
        (
            RATES.replace("\tRate: 327 Hz\n", "\tRTT: 3.70 ms\n"),
            "there is no Client publish time, Agent publish time",
        ),
        ("what is this\n" + RATES, "line 1: 'what is this' is no heading"),
        (
            # Two sessions write at once.
            RATES.replace("\tRate: 327 Hz\n", "\tRate: 327\tTopic size: 10 B\n Hz\n"),
            "is no result; the file is cut off, or lines of two boards are mixed",
        ),
    ],
    lambda path: read_tasks(path, {"app": 1024}): [
        ("", "names no task"),
        ("app\tX\t1\t76", "line 1: .* is no line of vTaskList"),
        ("app\tX\t1\t7IDLE\tR\t0\t100\t2\n64\t1\n", "line 1: .*mixed with other output"),
        ("app\tX\t1\t764\t1\napp\tX\t1\t764\t1\n", "task 'app' twice"),
        ("app\tX\t1\t3056\t1\n", "3056 words of task 'app' are free, of 1024: are they bytes"),
    ],
    read_heap: [
        ("", "does not begin with '= Start'"),
        (HEAP.removesuffix("= End\n"), "does not end with '= End': the log is cut off"),
        (HEAP.replace("@ a.elf:[0x10] + 0x2000 0x20\n", ""), "0x2000 is released but was not"),
        (
            HEAP.replace("@ a.elf:[0x18] < 0x3000\n", "@ a.elf:[0x18] + 0x3000 0x8\n"),
            "line 4: 0x3000 is allocated while it is still live",
        ),
        (HEAP.replace("+ 0x3000 0x8", "+ 0x30@ b.elf:[0x1] - 0x5"), "line 3: .* no call"),
    ],
    read_exchanges: [
        (EXCHANGES[:-6], "a row is not whole"),
        (EXCHANGES[:-1], "a row is not whole"),
        (EXCHANGES + "1,1,1,1,1,1,1\n", "exchange 1 is there twice"),
        (EXCHANGES.replace("1100,1150", "1150,1100"), "agent_sent_ns lies before"),
        (EXCHANGES.replace("sequence", "number"), "its header is not sequence,client_sent_ns"),
    ],
    read_capture: [
        ("", "nothing was captured"),
        ("10.0 TX 01 0", "line 1: .* in no format known here"),
        ("10.0 TX 01\n(10.1) can0 123#00\n", "line 2: .* not in that of the lines before"),
        ("10.0 TX 01\n9.0 TX 01\n", "line 2: time runs backwards"),
    ],
}


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [(read, *case) for read, cases in REFUSED.items() for case in cases],
)
def test_files_that_are_refused(
    tmp_path: Path, read: Callable[[Path], object], text: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        read(written(tmp_path, text))
