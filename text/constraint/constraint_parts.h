/*
 * constraint_parts - inside a constraint: shared by constraint.c, which goes on in a text, and constraint_compiler.c, which makes it.
 *
 * Thread: as in constraint.h.
 */
#pragma once

#include "text/constraint/constraint.h"

#include <llguidance.h>

struct constraint {
    struct constraint_compiler *compiler;
    LlgMatcher *matcher;
    uint64_t text_id; /* what constraint_compiler_forget is to be told */
    uint32_t vocabulary;
    uint32_t n_accepted; /* without an end */
    bool has_ended;      /* an end was accepted */
};

/* Makes *constraint_out of a matcher, which becomes its own on success. NO_MEMORY. */
MUST_CHECK enum status constraint_create(struct constraint_compiler *compiler, uint64_t text_id,
                                         LlgMatcher *take_matcher,
                                         struct constraint **constraint_out);

uint32_t constraint_compiler_vocabulary(const struct constraint_compiler *compiler);
bool constraint_compiler_is_end(const struct constraint_compiler *compiler, uint32_t token_id);
/* A compiled text failed: clones of it share what the library has computed, and would fail, too. */
void constraint_compiler_forget(struct constraint_compiler *compiler, uint64_t text_id);

/* What the library says, in one line. */
void constraint_library_error(LlgMatcher *matcher, struct error *error);
