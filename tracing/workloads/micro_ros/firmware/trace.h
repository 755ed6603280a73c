/* Writes a CTF 1.8 stream to a file of the host, as barectf's generated code does. */
#ifndef TRACE_H
#define TRACE_H

#include <stdint.h>

void trace_begin(void);
void trace_end(void);

void trace_entity_created(uint8_t kind, uint16_t number, uint32_t bytes);
void trace_allocation(uint32_t address, uint32_t size);
void trace_release(uint32_t address);
void trace_stack(uint32_t total_words, uint32_t free_words);

#endif
