/*
 * secret - wipes and compares secrets in memory, with OpenSSL.
 *
 * Thread: any; no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Overwrites memory in a way that the compiler cannot optimize away. */
void secret_wipe(void *secret, size_t bytes);

/* Compares in constant time. */
bool secret_equal(const void *a, const void *b, size_t bytes);
