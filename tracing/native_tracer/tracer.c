/* Everything off the path of an event: the folder, its metadata, streams and their packets. */
#define _GNU_SOURCE
#include "tracer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#define MAGIC 0xC1FC1FC1u
#define SMALLEST_PACKET (64u << 10) /* a multiple of every page size */
#define LARGEST_PACKET (256u << 10)
#define LARGEST_EVENT (SMALLEST_PACKET - TRACER_HEAD)
#define SLOTS 4096
#define SLOTS_LOOKED_AT 128
#define RETRY_NS 20000000u /* after a failure, so that events do not pay for it one by one */
#define LOSS_NAME "ros2_discarded"
#define KIND_AT 30 /* threads have smaller numbers */
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* A stream file, owned by a thread; when the thread has ended, another one continues the file. */
struct slot {
  uint64_t owner; /* generation << 32 | kind << KIND_AT | thread */
  struct tracer_head * packet;
  uint64_t size; /* of the file */
  uint64_t retry_at;
  uint64_t begun; /* of the file */
  bool made;
};

__thread struct tracer_writer tracer_writers[TRACER_KINDS]
  __attribute__((tls_model("initial-exec")));
unsigned tracer_kind_of_names;
volatile uint64_t * tracer_generation;
/* Next to the generation, so that a child has its own: discarded events that no file counts. */
#define PENDING (tracer_generation + 1)

static char folder[PATH_MAX];
static struct slot slots[SLOTS];
static unsigned slots_used;
/* Discarded events of threads that have no packet: shared by all processes of the folder. */
static struct tracer_head * loss;
static uint64_t retry_at;
/* How far back a flight recorder's files reach at least, in ns; else 0. Its metadata has a name
   that readers do not know, because data missing from its files would look like missing events. */
static uint64_t flight_ns;
static const char * metadata_name = "metadata";

/* ------------------------------------------------------------------ system calls

   Bare calls, because the C library's functions are points where a thread may be cancelled. */

static int open_at(int where, const char * name, int flags, int mode)
{
  return (int) syscall(SYS_openat, where, name, flags | O_CLOEXEC | O_NOFOLLOW, mode);
}

static void close_it(int file)
{
  if (file >= 0) {
    syscall(SYS_close, file);
  }
}

static bool write_all(int file, const void * bytes, size_t size, uint64_t offset)
{
  return syscall(SYS_pwrite64, file, bytes, size, offset) == (long) size;
}

/* Append a packet without events to a file. Its head comes first, so that a file always consists of
   whole packets and at most one that is cut off after its content. Space is reserved and then
   written, which creates pages backed by the disk five times as fast as first touching them through
   a mapping does. */
static bool append(int file, uint64_t offset, const struct tracer_head * head, size_t size)
{
  static char zeros[LARGEST_PACKET]; /* never written, so never in memory */
  struct iovec parts[] = {
    {(void *) head, TRACER_HEAD}, {(void *) zeros, size - TRACER_HEAD}};
  if (syscall(SYS_fallocate, file, FALLOC_FL_KEEP_SIZE, offset, size) != 0 &&
    errno != EOPNOTSUPP && errno != ENOSYS)
  {
    return false;
  }
  return syscall(SYS_pwritev, file, parts, 2, offset, 0) == (long) size;
}

/* Open the folder if it is this user's and nobody else can put anything into it; else return -1. */
static int open_folder(const char * path)
{
  struct stat found;
  int file = open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
  if (file >= 0 && (fstat(file, &found) != 0 || found.st_uid != geteuid() || found.st_mode & 022)) {
    close_it(file);
    return -1;
  }
  return file;
}

static bool is_own_file(int file, uint64_t size)
{
  struct stat found;
  return fstat(file, &found) == 0 && S_ISREG(found.st_mode) && found.st_uid == geteuid() &&
         found.st_nlink == 1 && (uint64_t) found.st_size == size;
}

/* Give the file written as `temporary` its final name, unless a file has that name already. */
static bool name_it(int where, const char * temporary, const char * name)
{
  bool named = linkat(where, temporary, where, name, 0) == 0 || errno == EEXIST;
  unlinkat(where, temporary, 0);
  return named;
}

/* ------------------------------------------------------------------ the folder's own files */

static void head_of(struct tracer_head * head, uint64_t now, uint64_t number, uint64_t size)
{
  *head = (struct tracer_head) {
    .magic = MAGIC, .begin = now, .end = now, .content_bits = TRACER_HEAD * 8,
    .packet_bits = size * 8, .number = number};
}

static uint64_t clock_offset(void)
{
  uint64_t shortest = UINT64_MAX, offset = 0;
  for (int i = 0; i < 8; i++) {
    struct timespec wall;
    uint64_t before = tracer_now();
    clock_gettime(CLOCK_REALTIME, &wall);
    uint64_t after = tracer_now();
    if (after - before < shortest) {
      shortest = after - before;
      offset = (uint64_t) wall.tv_sec * 1000000000u + (uint64_t) wall.tv_nsec -
        (before + shortest / 2);
    }
  }
  return offset;
}

static void boot_id(char text[37])
{
  strcpy(text, "00000000-0000-0000-0000-000000000000");
  char read_text[36];
  int file = open_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", O_RDONLY, 0);
  if (file >= 0 && syscall(SYS_read, file, read_text, 36) == 36) {
    memcpy(text, read_text, 36);
  }
  close_it(file);
}

static bool write_metadata(int where)
{
  enum { TEXT = 8192 };
  char boot[37], own[48];
  /* Not on the stack, because the stack of a signal handler may have only 8 KiB. */
  char * text = mmap(NULL, TEXT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (text == MAP_FAILED) {
    return false;
  }
  uint8_t id[16] = {0};
  struct utsname host;
  boot_id(boot);
  syscall(SYS_getrandom, id, sizeof id, 0);
  if (uname(&host) != 0) {
    strcpy(host.nodename, "unknown");
  }
  for (char * c = host.nodename; *c; c++) {
    if (*c == '"' || *c == '\\' || (unsigned char) *c < ' ') {
      *c = '_';
    }
  }
  int length = snprintf(
    text, TEXT,
    "/* CTF 1.8 */\n\n"
    "typealias integer { size = 16; align = 8; signed = false; } := u16;\n"
    "typealias integer { size = 32; align = 8; signed = false; } := u32;\n"
    "typealias integer { size = 64; align = 8; signed = false; } := u64;\n\n"
    "trace {\n\tmajor = 1;\n\tminor = 8;\n"
    "\tuuid = \"%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x\";\n"
    "\tbyte_order = %s;\n"
    "\tpacket.header := struct {\n\t\tu32 magic;\n\t\tu32 stream_id;\n\t};\n};\n\n"
    "env {\n\thostname = \"%s\";\n\tdomain = \"ust\";\n\ttracer_name = \"roslens\";\n"
    "\ttracer_major = 1;\n\ttracer_minor = 0;\n\ttracetools = \"%s\";\n"
    "\tflight_ns = %llu;\n};\n\n"
    "clock {\n\tname = \"monotonic\";\n\tuuid = \"%s\";\n\tfreq = 1000000000;\n"
    "\toffset = %llu;\n};\n\n"
    "typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; }"
    " := time;\n\n"
    "stream {\n\tid = 0;\n"
    "\tevent.header := struct {\n\t\tu16 id;\n\t\ttime timestamp;\n\t};\n"
    "\tpacket.context := struct {\n\t\ttime timestamp_begin;\n\t\ttime timestamp_end;\n"
    "\t\tu64 content_size;\n\t\tu64 packet_size;\n\t\tu64 packet_seq_num;\n"
    "\t\tu64 events_discarded;\n\t};\n"
    "\tevent.context := struct {\n"
    "\t\tinteger { size = 32; align = 8; signed = true; } _vpid;\n"
    "\t\tinteger { size = 32; align = 8; signed = true; } _vtid;\n"
    "\t\tinteger { size = 8; align = 8; signed = true; encoding = UTF8; } _procname[%d];\n"
    "\t};\n};\n\n",
    id[0], id[1], id[2], id[3], id[4], id[5], id[6], id[7], id[8], id[9], id[10], id[11], id[12],
    id[13], id[14], id[15], __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? "le" : "be",
    host.nodename, tracer_abi, (unsigned long long) flight_ns, boot, (unsigned long long) clock_offset(), TRACER_PROCNAME);
  snprintf(own, sizeof own, ".metadata_%d_%llx", (int) getpid(), (unsigned long long) tracer_now());
  int file = open_at(where, own, O_WRONLY | O_CREAT | O_EXCL, 0600);
  size_t rest = strlen(tracer_event_metadata);
  bool written = file >= 0 && length > 0 && (size_t) length < TEXT &&
    write_all(file, text, (size_t) length, 0) &&
    write_all(file, tracer_event_metadata, rest, (uint64_t) length);
  munmap(text, TEXT);
  close_it(file);
  if (!written) {
    unlinkat(where, own, 0);
    return false;
  }
  return name_it(where, own, metadata_name);
}

/* Write an empty packet, which tells when nothing was lost yet, and a packet with the count. */
static bool write_loss(int where)
{
  char own[48];
  struct tracer_head heads[2];
  uint64_t now = tracer_now();
  head_of(&heads[0], now, 0, TRACER_HEAD);
  head_of(&heads[1], now, 1, TRACER_HEAD);
  snprintf(own, sizeof own, ".loss_%d_%llx", (int) getpid(), (unsigned long long) now);
  int file = open_at(where, own, O_WRONLY | O_CREAT | O_EXCL, 0600);
  bool written = file >= 0 && write_all(file, heads, sizeof heads, 0);
  close_it(file);
  if (!written) {
    unlinkat(where, own, 0);
    return false;
  }
  return name_it(where, own, LOSS_NAME);
}

/* Set `path` to the trace's folder below `parent`: one for each boot, whose clock it has. */
static bool folder_below(const char * parent, char path[PATH_MAX])
{
  char boot[37];
  boot_id(boot);
  int length = snprintf(path, PATH_MAX, "%s/%s-%.8s", parent, tracer_abi, boot);
  return length > 0 && length < PATH_MAX;
}

static bool prepare(const char * path)
{
  if (mkdir(path, 0700) != 0 && errno != EEXIST) {
    return false;
  }
  int where = open_folder(path);
  if (where < 0) {
    return false;
  }
  bool done = (faccessat(where, metadata_name, F_OK, 0) == 0 || write_metadata(where)) &&
    (faccessat(where, LOSS_NAME, F_OK, 0) == 0 || write_loss(where));
  close_it(where);
  return done;
}

/* Map the folder's count of losses, and create it if missing. */
static struct tracer_head * open_loss(void)
{
  struct tracer_head * known = __atomic_load_n(&loss, __ATOMIC_ACQUIRE);
  if (known || !prepare(folder)) {
    return known;
  }
  int where = open_folder(folder);
  int file = where < 0 ? -1 : open_at(where, LOSS_NAME, O_RDWR, 0);
  void * mapped = MAP_FAILED;
  if (file >= 0 && is_own_file(file, 2 * TRACER_HEAD)) {
    mapped = mmap(NULL, 2 * TRACER_HEAD, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  close_it(file);
  close_it(where);
  if (mapped == MAP_FAILED) {
    return NULL;
  }
  struct tracer_head * counted = (struct tracer_head *) mapped + 1;
  if (!__atomic_compare_exchange_n(
      &loss, &known, counted, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
  {
    munmap(mapped, 2 * TRACER_HEAD);
    return known;
  }
  return counted;
}

/* ------------------------------------------------------------------ loss */

static void count_loss(struct tracer_head * head, uint64_t count)
{
  uint64_t now = tracer_now();
  __atomic_fetch_add(&head->discarded, count, __ATOMIC_RELAXED);
  if (now > head->end) {
    head->end = now;
  }
}

/* Also called in a signal handler that interrupts any of this code. */
void tracer_discard(struct tracer_writer * writer)
{
  struct tracer_head * counted = __atomic_load_n(&loss, __ATOMIC_ACQUIRE);
  if (writer->packet && writer->generation == *tracer_generation) {
    count_loss(writer->packet, 1);
  } else if (counted) {
    count_loss(counted, 1);
  } else {
    __atomic_fetch_add(PENDING, 1, __ATOMIC_RELAXED);
  }
}

static void count_pending(void)
{
  struct tracer_head * counted = __atomic_load_n(&loss, __ATOMIC_ACQUIRE);
  if (counted && __atomic_load_n(PENDING, __ATOMIC_RELAXED)) {
    count_loss(counted, __atomic_exchange_n(PENDING, 0, __ATOMIC_RELAXED));
  }
}

/* Return the number of discarded events that no file counts, because none could be written. */
TRACER_PUBLIC uint64_t roslens_tracer_pending(void)
{
  return tracer_generation ? __atomic_load_n(PENDING, __ATOMIC_RELAXED) : 0;
}

/* ------------------------------------------------------------------ streams */

static uint64_t generation_now(uint64_t now)
{
  uint64_t known = __atomic_load_n(tracer_generation, __ATOMIC_ACQUIRE);
  if (known) {
    return known;
  }
  /* The lower half, which identifies the generation in slots, is never 0. */
  uint64_t own = now | 1;
  return __atomic_compare_exchange_n(
    tracer_generation, &known, own, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ? own : known;
}

static void describe_thread(struct tracer_writer * writer)
{
  int32_t process = (int32_t) getpid(), thread = (int32_t) syscall(SYS_gettid);
  memset(writer->context, 0, TRACER_CONTEXT);
  memcpy(writer->context, &process, 4);
  memcpy(writer->context + 4, &thread, 4);
  prctl(PR_GET_NAME, writer->context + 8, 0, 0, 0);
}

static bool has_ended(int32_t thread)
{
  return syscall(SYS_tgkill, getpid(), thread, 0) != 0 && errno == ESRCH;
}

static void renew(struct slot * slot)
{
  slot->packet = NULL;
  slot->size = slot->retry_at = 0;
  slot->made = false;
}

/* Return the slot of an ended thread's stream, else a new one; -1 if there are too many. */
static int32_t take_slot(uint64_t generation, int32_t thread, uint32_t kind)
{
  uint64_t own = generation << 32 | kind << KIND_AT | (uint32_t) thread;
  unsigned used = __atomic_load_n(&slots_used, __ATOMIC_ACQUIRE);
  used = used < SLOTS ? used : SLOTS;
  unsigned looks = used < SLOTS_LOOKED_AT ? used : SLOTS_LOOKED_AT;
  unsigned first = used ? (unsigned) thread % used : 0;
  for (unsigned i = 0; i < looks; i++) {
    struct slot * slot = &slots[(first + i) % used];
    uint64_t owner = __atomic_load_n(&slot->owner, __ATOMIC_ACQUIRE);
    bool ours = owner >> 32 == (uint32_t) generation;
    int32_t its = (int32_t) (owner & ((1u << KIND_AT) - 1));
    /* A slot with our thread id belongs to an ended thread: this thread has none yet. */
    if (ours && ((owner >> KIND_AT & 1) != kind || (its != thread && !has_ended(its)))) {
      continue;
    }
    if (__atomic_compare_exchange_n(
        &slot->owner, &owner, own, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    {
      if (!ours) {
        /* The slot belongs to the parent process, and so does its file. */
        renew(slot);
      }
      return (int32_t) (slot - slots);
    }
  }
  unsigned next = __atomic_load_n(&slots_used, __ATOMIC_ACQUIRE);
  do {
    if (next >= SLOTS) {
      return -1;
    }
  } while (!__atomic_compare_exchange_n(
      &slots_used, &next, next + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
  /* Before the slot has an owner, another thread may see it free and take it. */
  uint64_t none = __atomic_load_n(&slots[next].owner, __ATOMIC_ACQUIRE);
  if (none >> 32 == (uint32_t) generation || !__atomic_compare_exchange_n(
      &slots[next].owner, &none, own, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
  {
    return take_slot(generation, thread, kind);
  }
  renew(&slots[next]);
  return (int32_t) next;
}

/* Append and map the next packet of a stream; return NULL if this fails. */
static struct tracer_head * next_packet(
  struct slot * slot, int32_t number, uint64_t generation, uint64_t now, bool names)
{
  char name[64], before[sizeof "_before" + 64];
  struct tracer_head head;
  uint64_t size = slot->packet && !flight_ns ? LARGEST_PACKET : SMALLEST_PACKET;
  void * mapped = MAP_FAILED;
  /* A flight recorder's packets begin with 1: a reader can then be told that the first are gone. */
  head_of(&head, now, slot->packet ? slot->packet->number + 1 : flight_ns != 0, size);
  snprintf(
    name, sizeof name, "ros2_%s%d_%llx_%d", names ? "names_" : "", (int) getpid(),
    (unsigned long long) generation, (int) number);
  int where = open_folder(folder);
  if (where >= 0 && flight_ns && !names && slot->made && now - slot->begun >= flight_ns) {
    /* This file alone now covers the requested time, so it replaces the previous one. */
    snprintf(before, sizeof before, "%s_before", name);
    if (renameat(where, name, where, before) == 0) {
      slot->size = 0;
      slot->made = false;
    }
  }
  int file = where < 0 ? -1 :
    open_at(where, name, O_RDWR | (slot->made ? 0 : O_CREAT | O_EXCL), 0600);
  close_it(where);
  if (file < 0) {
    return NULL;
  }
  if (!slot->made) {
    slot->begun = now;
  }
  slot->made = true;
  if (is_own_file(file, slot->size)) {
    if (append(file, slot->size, &head, size)) {
      mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t) slot->size);
      /* Fault the pages in now, not one by one later; this fails if the disk cannot hold what it
         promised. Before Linux 5.14 there is no such advice. */
      if (mapped != MAP_FAILED && madvise(mapped, size, MADV_POPULATE_WRITE) != 0 &&
        errno == EFAULT)
      {
        munmap(mapped, size);
        mapped = MAP_FAILED;
      }
    }
    if (mapped == MAP_FAILED) {
      syscall(SYS_ftruncate, file, slot->size);
    }
  }
  close_it(file);
  if (mapped == MAP_FAILED) {
    return NULL;
  }
  slot->size += size;
  return mapped;
}

static void write_into(struct tracer_writer * writer, struct tracer_head * packet)
{
  unsigned char * start = (unsigned char *) packet;
  writer->next = start + packet->content_bits / 8;
  writer->end = start + packet->packet_bits / 8;
  writer->packet = packet;
}

static bool go_on(struct tracer_writer * writer, size_t size)
{
  uint32_t kind = (uint32_t) (writer - tracer_writers);
  uint64_t now = writer->now, generation = generation_now(now);
  if (writer->generation != generation) {
    writer->next = writer->end = NULL;
    writer->packet = NULL;
    writer->slot = -1;
    writer->generation = generation;
  }
  if (size > LARGEST_EVENT) {
    return false;
  }
  if (writer->slot < 0) {
    if (now < __atomic_load_n(&retry_at, __ATOMIC_RELAXED)) {
      return false;
    }
    if (!open_loss()) {
      __atomic_store_n(&retry_at, now + RETRY_NS, __ATOMIC_RELAXED);
      return false;
    }
    count_pending();
    describe_thread(writer);
    int32_t thread;
    memcpy(&thread, writer->context + 4, 4);
    writer->slot = take_slot(generation, thread, kind);
    if (writer->slot < 0) {
      return false;
    }
    if (slots[writer->slot].packet) {
      write_into(writer, slots[writer->slot].packet);
      if ((size_t) (writer->end - writer->next) >= size) {
        return true;
      }
    }
  }
  struct slot * slot = &slots[writer->slot];
  if (now < slot->retry_at) {
    return false;
  }
  struct tracer_head * packet = next_packet(
    slot, writer->slot, generation, now, kind == TRACER_NAMES);
  if (!packet) {
    slot->retry_at = now + RETRY_NS;
    return false;
  }
  struct tracer_head * before = slot->packet;
  slot->packet = packet;
  write_into(writer, packet);
  describe_thread(writer);
  if (before) {
    /* Losses that a signal handler counted up to now are in the previous packet. */
    __atomic_fetch_add(
      &packet->discarded, __atomic_load_n(&before->discarded, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    munmap(before, before->packet_bits / 8);
  }
  return true;
}

/* Signals are blocked while files are created and mapped, except those for a thread's own faults,
   which cannot be. So a thread is not cancelled between a packet and the note of it, no handler
   needs room on its stack here, and SIGXFSZ, raised by a write beyond the process's limit, is
   removed. The C library's call would leave out the signal that it uses for cancellation. */
static const int not_blocked[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
#define SIGNAL_SET sizeof(uint64_t) /* the kernel's */

static uint64_t bit_of(int number)
{
  return 1ull << (number - 1);
}

static void take_back(int number)
{
  uint64_t only = bit_of(number);
  struct timespec at_once = {0, 0};
  syscall(SYS_rt_sigtimedwait, &only, NULL, &at_once, SIGNAL_SET);
}

/* Make room for an event of `size` bytes in the writer's packet, or count it and return false. */
bool tracer_make_room(struct tracer_writer * writer, size_t size)
{
  int before = errno;
  uint64_t blocked = ~0ull, pending = 0, mask = 0;
  for (size_t i = 0; i < sizeof not_blocked / sizeof *not_blocked; i++) {
    blocked &= ~bit_of(not_blocked[i]);
  }
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, &blocked, &mask, SIGNAL_SET);
  syscall(SYS_rt_sigpending, &pending, SIGNAL_SET);
  bool room = go_on(writer, size);
  if (!room) {
    tracer_discard(writer);
    if (!(pending & bit_of(SIGXFSZ))) {
      take_back(SIGXFSZ);
    }
  }
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, SIGNAL_SET);
  errno = before;
  return room;
}

/* ------------------------------------------------------------------ at the start */

static void forget(void)
{
  *tracer_generation = *PENDING = 0;
}

/* Return whether a name matches a list such as "ros2:rcl_*,ros2:callback_start". */
static bool is_wanted(const char * name, const char * list)
{
  while (*list) {
    size_t length = strcspn(list, ",");
    const char * n = name, * p = list, * end = list + length, * star = NULL, * mark = NULL;
    while (*n) {
      if (p < end && *p == '*') {
        star = ++p;
        mark = n;
      } else if (p < end && *p == *n) {
        p++, n++;
      } else if (star) {
        p = star;
        n = ++mark;
      } else {
        break;
      }
    }
    while (p < end && *p == '*') {
      p++;
    }
    if (!*n && p == end) {
      return true;
    }
    list += length + (list[length] == ',');
  }
  return false;
}

static void set_flight(double seconds)
{
  if (seconds > 0 && seconds < 1e6) {
    flight_ns = (uint64_t) (seconds * 1e9);
    metadata_name = "metadata_of_flight";
    tracer_kind_of_names = TRACER_NAMES;
  }
}

__attribute__((constructor)) static void begin(void)
{
  const char * parent = secure_getenv("ROSLENS_TRACE_FOLDER");
  const char * events = secure_getenv("ROSLENS_TRACE_EVENTS");
  const char * flight = secure_getenv("ROSLENS_TRACE_FLIGHT");
  if (!parent || parent[0] != '/' || !folder_below(parent, folder)) {
    return;
  }
  set_flight(flight ? strtod(flight, NULL) : 0);
  void * page = mmap(
    NULL, (size_t) sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
    -1, 0);
  if (page == MAP_FAILED) {
    return;
  }
  tracer_generation = page;
  if (madvise(page, (size_t) sysconf(_SC_PAGESIZE), MADV_WIPEONFORK) != 0) {
    pthread_atfork(NULL, NULL, forget); /* before Linux 4.14 */
  }
  for (unsigned i = 0; i < tracer_event_count; i++) {
    tracer_enabled[i] = !events || is_wanted(tracer_event_names[i], events);
  }
}

/* Create a trace's folder below `parent`, so that it exists even if the disk fills up. */
TRACER_PUBLIC bool roslens_tracer_prepare(const char * parent, double flight_seconds)
{
  char path[PATH_MAX];
  set_flight(flight_seconds);
  return folder_below(parent, path) && prepare(path);
}

extern char * _ZN10tracetools6detail18get_symbol_funcptrEPKv(const void *);

/* The symbol that Humble uses. */
TRACER_PUBLIC char * _ZN10tracetools6detail18get_symbol_funcptrEPv(void * function)
{
  return _ZN10tracetools6detail18get_symbol_funcptrEPKv(function);
}
