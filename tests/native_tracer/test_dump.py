"""Test ``roslens dump`` of running programs, against their source and the kernel."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.programs import wait_for

from roslens.dump import mutexes, run_dump
from roslens.recording import UsageError


def shown(target: str, capsys: pytest.CaptureFixture[str]) -> str:
    run_dump(target)
    return " ".join(capsys.readouterr().out.split())


def shown_with(pattern: str, target: int, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the page as soon as the pattern matches, as programs take a while to come to rest."""

    def page() -> str:
        output = shown(str(target), capsys)
        return output if re.search(pattern, output) else ""

    return wait_for(page)


def test_a_program_that_records_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as program:
        output = shown_with(rf"{program.pid} python\S* asleep", program.pid, capsys)
        program.communicate(b"\n")
    assert f"Process {program.pid} (python" in output
    assert "since when, and which service they wait for is not known" in output


CYCLE = r"""
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_barrier_t both;

static void * lock(void * first)
{
  pthread_mutex_lock(&locks[first != NULL]);
  printf("%ld\n", syscall(SYS_gettid));
  fflush(stdout);
  pthread_barrier_wait(&both);
  pthread_mutex_lock(&locks[first == NULL]);
  return NULL;
}

int main(void)
{
  pthread_t threads[2];
  pthread_barrier_init(&both, NULL, 2);
  pthread_create(&threads[0], NULL, lock, NULL);
  pthread_create(&threads[1], NULL, lock, &both);
  return pthread_join(threads[0], NULL);
}
"""


def test_two_threads_that_lock_in_opposite_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program prints which threads they are."""
    source = tmp_path / "cycle.c"
    source.write_text(CYCLE)
    subprocess.run(["cc", "-pthread", str(source), "-o", str(tmp_path / "cycle")], check=True)
    with subprocess.Popen([tmp_path / "cycle"], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        a, b = sorted(int(program.stdout.readline()) for _ in range(2))
        output = shown_with("a deadlock.*a deadlock", program.pid, capsys)
        program.kill()
    for waiter, holder in ((a, b), (b, a)):
        holds = f"thread {holder} holds, which waits for one that thread {waiter} holds"
        assert f"Thread {waiter} waits for a mutex that {holds}: a deadlock." in output


def test_who_waits_for_whom_among_mutexes() -> None:
    assert list(mutexes({1: 2, 2: 3, 3: 2, 4: 4, 5: 6})) == [
        (
            "Thread 1 waits for a mutex that thread 2 holds, which waits for one that thread 3 "
            "holds, which waits for one that thread 2 holds."
        ),
        (
            "Thread 2 waits for a mutex that thread 3 holds, which waits for one that thread 2 "
            "holds: a deadlock."
        ),
        (
            "Thread 3 waits for a mutex that thread 2 holds, which waits for one that thread 3 "
            "holds: a deadlock."
        ),
        "Thread 4 waits for a mutex that thread 4 holds: a deadlock.",
        "Thread 5 waits for a mutex that thread 6 holds.",
    ]


@pytest.mark.parametrize(
    ("target", "error"),
    [("4194305", "there is no such process"), ("/none", "no program that records itself")],
)
def test_what_is_not_there(target: str, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        run_dump(target)
