/*
 * secret - what a secret in memory wants beside being read, by OpenSSL.
 *
 * Thread: any; no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Overwrites what nobody reads any more, which a compiler would leave out. */
void secret_wipe(void *secret, size_t bytes);

/* In a time that does not tell where they differ. */
bool secret_equal(const void *a, const void *b, size_t bytes);
