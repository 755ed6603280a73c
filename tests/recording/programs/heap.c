/* heap: says in lines, each followed by waiting for a line, how many bytes it has from malloc more
   than at its begin: 0; 64 blocks of 1 MiB (mapped) and 1000 of 1000 B; the mapped ones freed. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t held;

static void *take(size_t bytes)
{
  void *memory = malloc(bytes);
  memset(memory, 1, bytes);
  held += malloc_usable_size(memory);
  return memory;
}

static void say(void)
{
  printf("%zu\n", held);
  fflush(stdout);
  if (getchar() == EOF) {
    exit(1);
  }
}

int main(void)
{
  void *large[64];
  say();
  for (int i = 0; i < 64; i++) {
    large[i] = take(1 << 20);
  }
  for (int i = 0; i < 1000; i++) {
    take(1000);
  }
  say();
  for (int i = 0; i < 64; i++) {
    held -= malloc_usable_size(large[i]);
    free(large[i]);
  }
  say();
  return 0;
}
