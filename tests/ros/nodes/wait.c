// As burn.c, but they wait: alpha() asleep, beta() for a lock that another thread holds. They
// return how long they were not on a CPU [s].
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

static double off(void)
{
  struct timespec all, own;
  clock_gettime(CLOCK_MONOTONIC, &all);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own);
  return all.tv_sec - own.tv_sec + 1e-9 * (all.tv_nsec - own.tv_nsec);
}

static void rest(double seconds)
{
  struct timespec length = {0, (long)(1e9 * seconds)};
  nanosleep(&length, NULL);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t held;

static void * holder(void * seconds)
{
  pthread_mutex_lock(&lock);
  sem_post(&held);
  rest(*(double *)seconds);
  pthread_mutex_unlock(&lock);
  return NULL;
}

__attribute__((noinline)) double alpha(double seconds)
{
  double begin = off();
  rest(seconds);
  return off() - begin;
}

__attribute__((noinline)) double beta(double seconds)
{
  double begin = off();
  pthread_t thread;
  pthread_create(&thread, NULL, holder, &seconds);
  sem_wait(&held);
  pthread_mutex_lock(&lock);
  pthread_mutex_unlock(&lock);
  pthread_join(thread, NULL);
  return off() - begin;
}
