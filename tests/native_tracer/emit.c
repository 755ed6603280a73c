/* emit MODE COUNT [THREADS]: emits ros2:callback_start and says how many on its last line.

   run: COUNT events from each of THREADS threads; churn: THREADS threads one after the other, eight
   at a time, with COUNT each; fork: THREADS children with COUNT each, and COUNT of its own before
   and after; signals: COUNT while a timer's handler emits too; handler: COUNT in a handler on a
   stack of 8 KiB; cancel: THREADS threads that are cancelled at any instruction, which do not
   count, and COUNT of another one after each; forever: until killed, COUNT and
   so on, with a line for every event once it is complete written to a mapped file ($EMITTED). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void ros_trace_callback_start(const void * callback, const bool is_intra_process);

static uint64_t count;
static volatile uint64_t handled;

static void * many(void * first)
{
  for (uint64_t i = 0; i < count; i++) {
    ros_trace_callback_start((void *) ((uintptr_t) first + i), i & 1);
  }
  return NULL;
}

static void handle(int number)
{
  (void) number;
  handled++;
  ros_trace_callback_start((void *) 0xffff, true);
}

static void handle_many(int number)
{
  (void) number;
  many((void *) 1);
}

static void * until_cancelled(void * first)
{
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
  for (;;) {
    ros_trace_callback_start(first, true);
  }
  return NULL;
}

static void threads_at_once(unsigned threads)
{
  pthread_t made[1024];
  for (unsigned i = 0; i < threads; i++) {
    pthread_create(&made[i], NULL, many, (void *) ((uintptr_t) (i + 1) << 32));
  }
  for (unsigned i = 0; i < threads; i++) {
    pthread_join(made[i], NULL);
  }
}

int main(int argc, char ** argv)
{
  const char * mode = argv[1];
  count = strtoull(argv[2], NULL, 10);
  unsigned threads = argc > 3 ? (unsigned) atoi(argv[3]) : 1;
  uint64_t emitted = 0;
  if (strcmp(mode, "run") == 0) {
    threads_at_once(threads);
    emitted = count * threads;
  } else if (strcmp(mode, "churn") == 0) {
    for (unsigned done = 0; done < threads; done += 8) {
      threads_at_once(8);
      emitted += count * 8;
    }
  } else if (strcmp(mode, "fork") == 0) {
    many((void *) 1);
    for (unsigned i = 0; i < threads; i++) {
      if (fork() == 0) {
        many((void *) 2);
        threads_at_once(1);
        _exit(0);
      }
    }
    while (wait(NULL) > 0) {
    }
    many((void *) 3);
    emitted = count * (2 + 2 * (uint64_t) threads);
  } else if (strcmp(mode, "signals") == 0) {
    struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    signal(SIGALRM, handle);
    setitimer(ITIMER_REAL, &often, NULL);
    many((void *) 1);
    setitimer(ITIMER_REAL, &never, NULL);
    emitted = count + handled;
  } else if (strcmp(mode, "handler") == 0) {
    stack_t stack = {.ss_sp = malloc(8192), .ss_size = 8192};
    struct sigaction action = {.sa_handler = handle_many, .sa_flags = SA_ONSTACK};
    sigaltstack(&stack, NULL);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    emitted = count;
  } else if (strcmp(mode, "cancel") == 0) {
    for (unsigned i = 0; i < threads; i++) {
      pthread_t cancelled;
      pthread_create(&cancelled, NULL, until_cancelled, (void *) 0xffff);
      usleep(i % 1000);
      pthread_cancel(cancelled);
      pthread_join(cancelled, NULL);
      threads_at_once(1);
      emitted += count;
    }
  } else if (strcmp(mode, "forever") == 0) {
    int file = open(getenv("EMITTED"), O_RDWR | O_CREAT, 0600);
    if (ftruncate(file, 4096) != 0) {
      return 1;
    }
    volatile uint64_t * shared =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    for (uint64_t i = 1;; i++) {
      ros_trace_callback_start((void *) i, true);
      *shared = i;
    }
  } else if (strcmp(mode, "cost") == 0) {
    struct timespec a, b, c;
    struct timespec ignored;
    many((void *) 1);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    many((void *) 1);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    for (uint64_t i = 0; i < count; i++) {
      clock_gettime(CLOCK_MONOTONIC, &ignored);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &c);
    double event = (double) (b.tv_sec - a.tv_sec) * 1e9 + (double) (b.tv_nsec - a.tv_nsec);
    double clock = (double) (c.tv_sec - b.tv_sec) * 1e9 + (double) (c.tv_nsec - b.tv_nsec);
    printf("%.2f %.2f\n", event / (double) count, clock / (double) count);
    return 0;
  }
  printf("%llu\n", (unsigned long long) emitted);
  return 0;
}
