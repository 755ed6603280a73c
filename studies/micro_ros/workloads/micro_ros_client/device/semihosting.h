/* Files of the host and the end of the program, by Arm semihosting. */
#ifndef SEMIHOSTING_H
#define SEMIHOSTING_H

#include <stddef.h>

/* Open a file of the host for writing; ends the program where it cannot be. */
int file_create(const char *name);
void file_write(int file, const void *data, size_t size);
void file_text(int file, const char *text);
void file_close(int file);

/* The words that the emulator was given for the program, parted by blanks; empty for none. */
void command_line(char *text, size_t size);

_Noreturn void end_program(int status);

#endif
