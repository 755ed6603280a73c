#include <stdio.h>
#include <string.h>
#include "barectf.h"
/* Bytes in the order of the trace, whatever the machine: barectf writes them so. */
static uint64_t ticks;
static FILE *out;
static struct barectf_main_ctx ctx;
static uint8_t buf[256];
static uint64_t now(void *d) { (void)d; return ticks; }
static int full(void *d) { (void)d; return 0; }
static void open_packet(void *d) { (void)d; barectf_main_open_packet(&ctx); }
static void close_packet(void *d) { (void)d; barectf_main_close_packet(&ctx);
  fwrite(buf, barectf_packet_buf_size(&ctx), 1, out); }
int main(void) {
  struct barectf_platform_callbacks cbs = { .ticks_clock_get_value = now,
    .is_backend_full = full, .open_packet = open_packet, .close_packet = close_packet };
  out = fopen("stream", "wb");
  barectf_init(&ctx, buf, sizeof buf, cbs, NULL);
  open_packet(NULL);
  for (int i = 0; i < 20; i++) {
    ticks += 24000000ULL * 60;
    uint16_t words[3] = { (uint16_t)(i * 1000), 65535, 7 };
    int32_t pair[2] = { -i, 2147483647 };
    char name[16];
    snprintf(name, sizeof name, "name %d", i);
    barectf_trace_sample(&ctx, (uint8_t)(i % 3), i % 8, i * 100 - 1000, name, i / 4.0,
                         i % 4, words, pair, i % 8);
    if (i % 5 == 0) barectf_trace_tick(&ctx, 255, 0xffffffffffffff00ULL + i);
  }
  close_packet(NULL);
  fclose(out);
  return 0;
}
