/*
 * text_build - whether this build has the Rust library, with its templates and grammars.
 *
 * Thread: any; the texts are literals.
 */
#pragma once

#include <stdbool.h>

bool text_is_built(void);

/* "minijinja 3.1.0, llguidance 1.9.1", or what to do about it. */
const char *text_libraries(void);
