/* Preloaded into the storage benchmark: logs what it writes to files of one folder, in order, so
 * that the state of the disk at any moment can be made again. Environment: ROSLENS_WRITE_FOLDER
 * (whose files), ROSLENS_WRITE_LOG (where to). Record: operation, file, offset, length (all
 * uint64, host order), then `length` bytes. Operations: 1 open (data: the name), 2 write,
 * 3 truncate to offset, 4 sync, 5 unlink (data: the name).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN = 1, WRITE, TRUNCATE, SYNC, UNLINK, MOST = 1024 };

static char watched[MOST];
static const char *folder;
static size_t folder_length;
static int log_file = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void begin(void) {
  const char *name = getenv("ROSLENS_WRITE_LOG");
  folder = getenv("ROSLENS_WRITE_FOLDER");
  if (name == NULL || folder == NULL) return;
  folder_length = strlen(folder);
  log_file = (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                          0600);
}

static void put(const void *data, size_t length) {
  const char *at = data;
  while (length > 0) {
    long done = syscall(SYS_write, log_file, at, length);
    if (done <= 0) _exit(70);
    at += done;
    length -= (size_t)done;
  }
}

static void note(uint64_t operation, int file, uint64_t offset, const void *data, size_t length) {
  uint64_t head[4] = {operation, (uint64_t)file, offset, length};
  pthread_mutex_lock(&lock);
  put(head, sizeof head);
  put(data, length);
  pthread_mutex_unlock(&lock);
}

static int is_watched(int file) {
  return log_file >= 0 && file >= 0 && file < MOST && watched[file];
}

/* Not the folder itself, which is opened to be synced. */
static int is_within(const char *name) {
  return strncmp(name, folder, folder_length) == 0 && name[folder_length] == '/';
}

static int opened(int file, const char *name) {
  if (log_file >= 0 && file >= 0 && file < MOST) {
    watched[file] = is_within(name);
    if (watched[file]) note(OPEN, file, 0, name, strlen(name));
  }
  return file;
}

static int mode_of(int flags, va_list more) {
  return flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0;
}

#define OPENING(NAME)                                                                      \
  int NAME(const char *name, int flags, ...) {                                             \
    va_list more;                                                                          \
    va_start(more, flags);                                                                 \
    int mode = mode_of(flags, more);                                                       \
    va_end(more);                                                                          \
    return opened((int)syscall(SYS_openat, AT_FDCWD, name, flags | O_LARGEFILE, mode), name); \
  }
OPENING(open)
OPENING(open64)

static int (*next_close)(int);

int close(int file) {
  if (next_close == NULL) next_close = (int (*)(int))dlsym(RTLD_NEXT, "close");
  if (file >= 0 && file < MOST) watched[file] = 0;
  return next_close(file);
}

ssize_t write(int file, const void *data, size_t length) {
  uint64_t at = is_watched(file) ? (uint64_t)lseek(file, 0, SEEK_CUR) : 0;
  ssize_t done = syscall(SYS_write, file, data, length);
  if (done > 0 && is_watched(file)) note(WRITE, file, at, data, (size_t)done);
  return done;
}

ssize_t writev(int file, const struct iovec *parts, int count) {
  if (!is_watched(file)) return syscall(SYS_writev, file, parts, count);
  /* One after the other: a short writev is allowed, and callers go on. */
  for (int i = 0; i < count; i++)
    if (parts[i].iov_len > 0) return write(file, parts[i].iov_base, parts[i].iov_len);
  return 0;
}

static ssize_t write_cookie(void *file, const char *data, size_t length) {
  return write((int)(intptr_t)file, data, length);
}

static int close_cookie(void *file) { return close((int)(intptr_t)file); }

/* Inside the C library a stream's writes pass by the functions above: one that is written to the
   folder is made anew, of the same buffer, upon them. */
#define STREAMING(NAME)                                                                      \
  FILE *NAME(const char *name, const char *mode) {                                           \
    if (log_file < 0 || mode[0] != 'w' || !is_within(name)) {                                \
      FILE *(*next)(const char *, const char *) =                                            \
          (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, #NAME);                  \
      return next(name, mode);                                                               \
    }                                                                                        \
    int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666);                               \
    if (file < 0) return NULL;                                                               \
    cookie_io_functions_t calls = {.write = write_cookie, .close = close_cookie};            \
    FILE *stream = fopencookie((void *)(intptr_t)file, mode, calls);                         \
    if (stream != NULL) setvbuf(stream, NULL, _IOFBF, 4096);                                 \
    return stream;                                                                           \
  }
STREAMING(fopen)
STREAMING(fopen64)

#define WRITING(NAME)                                                           \
  ssize_t NAME(int file, const void *data, size_t length, off_t at) {           \
    ssize_t done = syscall(SYS_pwrite64, file, data, length, at);               \
    if (done > 0 && is_watched(file))                                           \
      note(WRITE, file, (uint64_t)at, data, (size_t)done);                      \
    return done;                                                                \
  }
WRITING(pwrite)
WRITING(pwrite64)

#define TRUNCATING(NAME)                                                        \
  int NAME(int file, off_t length) {                                            \
    int done = (int)syscall(SYS_ftruncate, file, length);                       \
    if (done == 0 && is_watched(file)) note(TRUNCATE, file, (uint64_t)length, "", 0); \
    return done;                                                                \
  }
TRUNCATING(ftruncate)
TRUNCATING(ftruncate64)

#define SYNCING(NAME)                                                           \
  int NAME(int file) {                                                          \
    int done = (int)syscall(SYS_##NAME, file);                                  \
    if (done == 0 && is_watched(file)) note(SYNC, file, 0, "", 0);              \
    return done;                                                                \
  }
SYNCING(fsync)
SYNCING(fdatasync)

int unlink(const char *name) {
  int done = (int)syscall(SYS_unlinkat, AT_FDCWD, name, 0);
  if (done == 0 && log_file >= 0 && is_within(name))
    note(UNLINK, -1, 0, name, strlen(name));
  return done;
}
