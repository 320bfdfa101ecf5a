/* The board of board.c, and what its program has to do. */
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

/* The program: 0 if it has succeeded. */
int run(void);

/* Writes to the console. */
void print(const char *text);
void print_number(uint32_t number);

/* The most octets that the stack has taken so far. */
uint32_t deepest_stack(void);

#endif
