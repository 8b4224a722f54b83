/*
 * affix - what tokens of a word are written with: before all but the first ("##"), or behind the last ("</w>").
 *
 * Thread: any (plain data).
 */
#pragma once

#include <stddef.h>

#define AFFIX_BYTES_MAX 64

struct affix {
    char bytes[AFFIX_BYTES_MAX];
    size_t n; /* 0: none */
};
