/* usage: says what it did, then waits for a line: maps and touches memory, burns CPU time.

   Prints, each on a line and after an empty line was read: the bytes it newly touched; the CPU
   time that getrusage gives, in ns. The second number of the last line is of an ended thread. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

static long long cpu_ns(void)
{
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000LL +
         (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000LL;
}

static void *burn(void *seconds)
{
  struct timespec now;
  double end;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  end = now.tv_sec + now.tv_nsec / 1e9 + *(double *)seconds;
  do {
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  } while (now.tv_sec + now.tv_nsec / 1e9 < end);
  return NULL;
}

static void say(long long number)
{
  printf("%lld\n", number);
  fflush(stdout);
  if (getchar() == EOF) {
    exit(1);
  }
}

int main(void)
{
  double seconds = 0.5;
  size_t bytes = (size_t)48 << 20;
  pthread_t thread;
  char *memory;
  say(0);
  memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return 1;
  }
  madvise(memory, bytes, MADV_NOHUGEPAGE);
  memset(memory, 1, bytes);
  say((long long)bytes);
  burn(&seconds);
  say(cpu_ns());
  pthread_create(&thread, NULL, burn, &seconds);
  pthread_join(thread, NULL);
  say(cpu_ns());
  return 0;
}
