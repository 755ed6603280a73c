/* What lwIP asks of a compiler and a platform; there is nowhere to print. */
#ifndef ARCH_CC_H
#define ARCH_CC_H

#include "semihosting.h"

#define LWIP_PLATFORM_DIAG(text) ((void)0)
#define LWIP_PLATFORM_ASSERT(text) end_program(7)

#endif
