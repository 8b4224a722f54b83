/*
 * constraint_parts - inside a constraint: shared by constraint.c, which advances in a text, and constraint_compiler.c, which makes it.
 *
 * Thread: as in constraint.h.
 */
#pragma once

#include "text/constraint/constraint.h"

#include <llguidance.h>

struct constraint {
    struct constraint_compiler *compiler;
    LlgMatcher *matcher;
    size_t n_bytes; /* what its calls have allocated, less what they freed; wraps below 0 */
    uint32_t vocabulary;
    uint32_t n_accepted; /* without an end */
    bool has_ended;      /* an end was accepted */
};

/* Makes *constraint_out of a matcher of so many bytes, which becomes its own on success. NO_MEMORY. */
MUST_CHECK enum status constraint_create(struct constraint_compiler *compiler,
                                         LlgMatcher *take_matcher, size_t n_bytes,
                                         struct constraint **constraint_out);

uint32_t constraint_compiler_vocabulary(const struct constraint_compiler *compiler);
bool constraint_compiler_is_end(const struct constraint_compiler *compiler, uint32_t token_id);
/* error: it has more than memory_max, so QUEUE_FULL. */
MUST_CHECK enum status constraint_compiler_check_memory(const struct constraint_compiler *compiler,
                                                        struct error *error);

/* What the library says, in one line. */
void constraint_library_error(LlgMatcher *matcher, struct error *error);
