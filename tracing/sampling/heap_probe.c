/* Preloaded into the programs of a run: a thread that reports the bytes that malloc has in use.

   ROSLENS_HEAP is a folder, ROSLENS_HEAP_HZ the rate. The file <PID namespace>.<pid> there holds
   two numbers of 8 bytes: bytes in use (mallinfo2: uordblks + hblkhd), and the CPU time in ns that
   the thread itself has used. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t *numbers;
static double hz;

static void *probe(void *unused)
{
  struct timespec period = {(time_t)(1 / hz), 0};
  (void)unused;
  period.tv_nsec = (long)((1 / hz - (double)period.tv_sec) * 1e9);
  pthread_setname_np(pthread_self(), "roslens-heap");
  for (;;) {
    struct mallinfo2 now = mallinfo2();
    struct timespec used;
    numbers[0] = now.uordblks + now.hblkhd;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    numbers[1] = (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
    nanosleep(&period, NULL);
  }
  return NULL;
}

static void begin(void)
{
  const char *folder = getenv("ROSLENS_HEAP");
  const char *rate = getenv("ROSLENS_HEAP_HZ");
  struct stat space;
  char path[512];
  sigset_t all, before;
  pthread_attr_t attributes;
  pthread_t thread;
  int file;

  hz = rate ? atof(rate) : 0;
  if (!folder || hz <= 0 || stat("/proc/self/ns/pid", &space)) {
    return;
  }
  snprintf(path, sizeof path, "%s/%lu.%d", folder, (unsigned long)space.st_ino, (int)getpid());
  file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) {
    return;
  }
  if (ftruncate(file, 16) == 0) {
    void *memory = mmap(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    numbers = memory == MAP_FAILED ? NULL : memory;
  }
  close(file);
  if (!numbers) {
    return;
  }
  /* The program's signals must be delivered to its own threads. */
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 64 * 1024);
  pthread_create(&thread, &attributes, probe, NULL);
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

__attribute__((constructor)) static void loaded(void)
{
  begin();
  /* A forked process has only the thread that forked. */
  pthread_atfork(NULL, NULL, begin);
}
