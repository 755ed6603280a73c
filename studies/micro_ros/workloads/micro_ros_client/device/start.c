/* From reset to main(). */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "semihosting.h"

extern uint32_t data_in_code[], data_begin[], data_end[], bss_begin[], bss_end[];
extern uint8_t heap_begin[], heap_end[], boot_stack_top[];

int main(void);

__attribute__((used)) _Noreturn void start(void) {
  memcpy(data_begin, data_in_code, (size_t)((uint8_t *)data_end - (uint8_t *)data_begin));
  memset(bss_begin, 0, (size_t)((uint8_t *)bss_end - (uint8_t *)bss_begin));
  end_program(main());
}

static _Noreturn void fault(void) { end_program(5); }

/* Those that a system takes. */
void SVC_Handler(void) __attribute__((weak, alias("fault")));
void PendSV_Handler(void) __attribute__((weak, alias("fault")));
void SysTick_Handler(void) __attribute__((weak, alias("fault")));

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))boot_stack_top, start, fault, fault, fault, fault, fault, fault,
    fault, fault, fault, SVC_Handler, fault, fault, PendSV_Handler, SysTick_Handler,
};

/* Memory for newlib's malloc. */
void *_sbrk(ptrdiff_t increment) {
  static uint8_t *end = heap_begin;
  if (end + increment > heap_end) {
    errno = ENOMEM;
    return (void *)-1;
  }
  uint8_t *before = end;
  end += increment;
  return before;
}
