/* lwIP as the board runs it: UDP over IPv4 over Ethernet, without an operating system. */
#ifndef LWIPOPTS_H
#define LWIPOPTS_H

#define NO_SYS 1
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_NETCONN 0
#define LWIP_SOCKET 0
#define LWIP_TCP 0
#define LWIP_STATS 0
#define MEM_ALIGNMENT 4
#define MEM_SIZE 16384
#define PBUF_POOL_SIZE 32

#endif
