/*
 * switch - from one stack to another, within a thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Saves this context's stack pointer in *save and goes on where to was saved, or begins. */
extern "C" void simt_switch(void **save, void *to);
/* What simt_switch takes to begin entry on the stack: [stack, stack + bytes). */
void *simt_switch_begin(uint8_t *stack, size_t bytes, void (*entry)());
