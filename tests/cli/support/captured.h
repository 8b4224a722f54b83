/*
 * captured - what a test writes to standard output or standard error, in a file that nobody else has.
 *
 * Asserts (Criterion) on anything unexpected.
 */
#pragma once

#include <stdio.h>

struct captured {
    FILE *stream; /* stdout or stderr */
    int saved;    /* its descriptor */
    FILE *file;
};

void captured_begin(struct captured *captured, FILE *stream);
/* The stream is as before. Writes a NUL behind what came, at most bytes - 1 of it. */
void captured_end(struct captured *captured, char *text_out, size_t bytes);
