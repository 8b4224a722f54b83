/* In place of constraint.c and constraint_compiler.c in a build without the Rust library. */
#include "text/constraint/constraint.h"
#include "text/text_build.h"

#include <assert.h>

enum status constraint_compiler_create(const struct tokenizer *tokenizer, uint32_t vocabulary,
                                       const uint32_t *ends, uint32_t n_ends,
                                       const struct constraint_limits *limits, struct error *error,
                                       struct constraint_compiler **compiler_out)
{
    (void)tokenizer, (void)vocabulary, (void)ends, (void)n_ends, (void)limits, (void)compiler_out;
    return error_set(error, STATUS_UNSUPPORTED, "constraints: %s", text_libraries());
}

void constraint_compiler_destroy(struct constraint_compiler *compiler)
{
    assert(!compiler);
}

/* No compiler, and so no constraint, can be had. */
enum status constraint_compile(struct constraint_compiler *compiler,
                               const struct constraint_text *text, bool (*is_over)(void *arg),
                               void *arg, struct error *error, struct constraint **constraint_out)
{
    (void)compiler, (void)text, (void)is_over, (void)arg, (void)constraint_out;
    return error_set(error, STATUS_UNSUPPORTED, "constraints: %s", text_libraries());
}

void constraint_destroy(struct constraint *constraint)
{
    assert(!constraint);
}

enum status constraint_mask(struct constraint *constraint, uint32_t *mask_out, struct error *error)
{
    (void)constraint, (void)mask_out;
    return error_set(error, STATUS_UNSUPPORTED, "constraints: %s", text_libraries());
}

enum status constraint_accept(struct constraint *constraint, uint32_t token_id, struct error *error)
{
    (void)constraint, (void)token_id;
    return error_set(error, STATUS_UNSUPPORTED, "constraints: %s", text_libraries());
}

enum status constraint_rollback(struct constraint *constraint, uint32_t n, struct error *error)
{
    (void)constraint, (void)n;
    return error_set(error, STATUS_UNSUPPORTED, "constraints: %s", text_libraries());
}

uint32_t constraint_forced(struct constraint *constraint, uint32_t *ids_out, uint32_t n_max)
{
    (void)constraint, (void)ids_out, (void)n_max;
    return 0;
}

bool constraint_is_done(const struct constraint *constraint)
{
    (void)constraint;
    return true;
}
