/* FreeRTOS as the board runs it: one task beside the idle task; the kernel allocates nothing. */
#ifndef FREERTOS_CONFIG_H
#define FREERTOS_CONFIG_H

#include "board.h"
#include "semihosting.h"

#define configCPU_CLOCK_HZ CLOCK_HZ
#define configTICK_RATE_HZ 1000
#define configTICK_TYPE_WIDTH_IN_BITS TICK_TYPE_WIDTH_32_BITS
#define configUSE_PREEMPTION 1
#define configMAX_PRIORITIES 2
#define configMAX_SYSCALL_INTERRUPT_PRIORITY 0x20

#define configSUPPORT_STATIC_ALLOCATION 1
#define configSUPPORT_DYNAMIC_ALLOCATION 0
#define configKERNEL_PROVIDED_STATIC_MEMORY 1
#define configMINIMAL_STACK_SIZE 128

/* uxTaskGetSystemState(), which has the high-water marks of all stacks. */
#define configUSE_TRACE_FACILITY 1
#define configCHECK_FOR_STACK_OVERFLOW 2
#define configASSERT(holds) ((holds) ? (void)0 : end_program(7))

#define configUSE_IDLE_HOOK 0
#define configUSE_TICK_HOOK 0
#define INCLUDE_vTaskDelay 1
#define INCLUDE_xTaskGetSchedulerState 1

/* Names of start.c. */
#define vPortSVCHandler SVC_Handler
#define xPortPendSVHandler PendSV_Handler
#define xPortSysTickHandler SysTick_Handler

#endif
