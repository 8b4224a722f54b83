#include "text/constraint/constraint.h"

#include "text/constraint/constraint_parts.h"
#include "text/jinja.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum status constraint_create(struct constraint_compiler *compiler, LlgMatcher *take_matcher,
                              size_t n_bytes, struct constraint **constraint_out)
{
    struct constraint *constraint = calloc(1, sizeof *constraint);
    if (!constraint)
        return STATUS_NO_MEMORY;
    constraint->compiler = compiler;
    constraint->matcher = take_matcher;
    constraint->n_bytes = n_bytes;
    constraint->vocabulary = constraint_compiler_vocabulary(compiler);
    *constraint_out = constraint;
    return STATUS_OK;
}

void constraint_destroy(struct constraint *constraint)
{
    if (!constraint)
        return;
    llg_free_matcher(constraint->matcher);
    free(constraint);
}

static enum status fail(struct constraint *constraint, const char *what, struct error *error)
{
    struct error why = {0};
    constraint_library_error(constraint->matcher, &why);
    return error_set(error, STATUS_CONSTRAINT_UNMET, "%s: %s", what, why.text);
}

/* Small ones go on: they are bounded by their number. */
static enum status check_memory(const struct constraint *constraint, struct error *error)
{
    if (constraint->n_bytes <= CONSTRAINT_SMALL_BYTES || constraint->n_bytes > SIZE_MAX / 2 ||
        constraint_compiler_check_memory(constraint->compiler, error) == STATUS_OK)
        return STATUS_OK;
    return error_set(error, STATUS_CONSTRAINT_UNMET,
                     "it has grown to %zu bytes, and all constraints have more than "
                     "constraint_memory_max",
                     constraint->n_bytes);
}

enum status constraint_mask(struct constraint *constraint, uint32_t *mask_out, struct error *error)
{
    const size_t n_words = (constraint->vocabulary + 31) / 32;
    TRY(check_memory(constraint, error));
    const size_t before = jinja_memory_of_thread();
    const bool has_failed = llg_matcher_compute_mask_into(constraint->matcher, mask_out,
                                                          n_words * sizeof *mask_out);
    constraint->n_bytes += jinja_memory_of_thread() - before;
    return has_failed ? fail(constraint, "which tokens may come", error) : STATUS_OK;
}

enum status constraint_accept(struct constraint *constraint, uint32_t token_id, struct error *error)
{
    if (token_id >= constraint->vocabulary || constraint->has_ended)
        return error_set(error, STATUS_CONSTRAINT_UNMET, "token %u cannot come here", token_id);
    if (constraint_compiler_is_end(constraint->compiler, token_id)) {
        if (!llg_matcher_is_accepting(constraint->matcher))
            return error_set(error, STATUS_CONSTRAINT_UNMET,
                             "token %u ends the text before it is complete", token_id);
        constraint->has_ended = true;
        return STATUS_OK;
    }
    const size_t before = jinja_memory_of_thread();
    const bool has_failed = llg_matcher_consume_token(constraint->matcher, token_id);
    constraint->n_bytes += jinja_memory_of_thread() - before;
    if (has_failed)
        return fail(constraint, "a token cannot come here", error);
    constraint->n_accepted++;
    return STATUS_OK;
}

enum status constraint_rollback(struct constraint *constraint, uint32_t n, struct error *error)
{
    if (n && constraint->has_ended) {
        constraint->has_ended = false;
        n--;
    }
    assert(n <= constraint->n_accepted);
    if (llg_matcher_rollback(constraint->matcher, n))
        return fail(constraint, "tokens cannot be taken back", error);
    constraint->n_accepted -= n;
    return STATUS_OK;
}

/* How many of ids, each of which alone can come by the library's count, are what it says when those before were accepted. */
static uint32_t count_certain(LlgMatcher *matcher, const uint32_t *ids, uint32_t n_ids)
{
    uint32_t n = 0, next = ids[0];
    while (n < n_ids && next == ids[n] && !llg_matcher_consume_token(matcher, next)) {
        n++;
        if (n < n_ids && llg_matcher_compute_ff_tokens(matcher, &next, 1) != 1)
            break;
    }
    return n;
}

uint32_t constraint_forced(struct constraint *constraint, uint32_t *ids_out, uint32_t n_max)
{
    LlgMatcher *matcher = constraint->matcher;
    if (n_max == 0 || constraint->has_ended || llg_matcher_is_stopped(matcher))
        return 0;
    const int32_t n_ids = llg_matcher_compute_ff_tokens(matcher, ids_out, n_max);
    if (n_ids <= 1)
        return n_ids == 1 ? 1 : 0;
    const uint32_t n = count_certain(matcher, ids_out, (uint32_t)n_ids);
    return llg_matcher_rollback(matcher, n) ? 0 : n;
}

bool constraint_is_done(const struct constraint *constraint)
{
    return constraint->has_ended || (llg_matcher_is_stopped(constraint->matcher) &&
                                     !llg_matcher_is_error(constraint->matcher));
}
