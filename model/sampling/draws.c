#include "model/sampling/draws.h"

#include "kernels/cuda/sampling_parameters.h"
#include "model/sampling/logprobs.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct draws {
    struct forward *forward;
    struct sampler *sampler;
    uint32_t vocabulary, rows_max;
    float *rows; /* [rows_max][vocabulary]; [1][vocabulary] for a device that finds candidates */

    /* For a device that finds candidates: */
    struct forward_wish *wishes;   /* [rows_max] */
    struct sampling_result *found; /* [rows_max] */
    struct sampling_penalty
        *penalties; /* [rows_max * FORWARD_PENALTIES_MAX], those of all rows without gaps */
    uint64_t n_fetched;
    uint64_t n_not_finite;
};

static enum status create_wishes(struct draws *draws)
{
    const size_t n = draws->rows_max;
    draws->wishes = calloc(n, sizeof *draws->wishes);
    draws->found = calloc(n, sizeof *draws->found);
    draws->penalties = calloc(n * FORWARD_PENALTIES_MAX, sizeof *draws->penalties);
    return draws->wishes && draws->found && draws->penalties ? STATUS_OK : STATUS_NO_MEMORY;
}

enum status draws_create(struct forward *forward, const struct kernels *kernels,
                         struct draws **draws_out)
{
    assert(forward && kernels);
    const bool finds = forward_finds(forward);
    struct draws *draws = calloc(1, sizeof *draws);
    if (!draws)
        return STATUS_NO_MEMORY;
    draws->forward = forward;
    draws->vocabulary = forward_vocabulary(forward);
    draws->rows_max = forward_get_options(forward)->sequences_max;
    draws->rows = calloc((finds ? 1 : (size_t)draws->rows_max) * draws->vocabulary,
                         sizeof *draws->rows);
    enum status status = sampler_create(draws->vocabulary, kernels, &draws->sampler);
    if (status == STATUS_OK && finds)
        status = create_wishes(draws);
    if (status == STATUS_OK && !draws->rows)
        status = STATUS_NO_MEMORY;
    if (status != STATUS_OK) {
        draws_destroy(draws);
        return status;
    }
    *draws_out = draws;
    return STATUS_OK;
}

void draws_set_ends(struct draws *draws, const uint32_t *ids, uint32_t n)
{
    sampler_set_ends(draws->sampler, ids, n);
}

void draws_set_suppressed(struct draws *draws, const uint32_t *ids, uint32_t n)
{
    sampler_set_suppressed(draws->sampler, ids, n);
}

void draws_destroy(struct draws *draws)
{
    if (!draws)
        return;
    sampler_destroy(draws->sampler);
    free(draws->rows);
    free(draws->wishes);
    free(draws->found);
    free(draws->penalties);
    free(draws);
}

static bool judge_row(struct draws *draws, struct draw *draw, const float *logits)
{
    const uint32_t id = logprobs_find_fault(logits, draws->vocabulary);
    if (id == draws->vocabulary)
        return true;
    draw->status = STATUS_LOGITS_NOT_FINITE;
    draw->token_id = id;
    draw->logit = logits[id];
    draws->n_not_finite++;
    return false;
}

static void draw_from_row(struct draws *draws, struct draw *draw, const float *logits)
{
    if (!judge_row(draws, draw, logits))
        return;
    if (draw->ranked)
        draw->token_id = sampler_rank_row(draws->sampler, draw, logits, draw->n_ranked,
                                          draw->ranked) > 0
                             ? draw->ranked->ids[0]
                             : SAMPLER_NO_TOKEN;
    else
        draw->token_id = sampler_draw_row(draws->sampler, draw, logits);
    if (draw->token_id == SAMPLER_NO_TOKEN)
        draw->status = draw->mask ? STATUS_CONSTRAINT_UNMET : STATUS_INVALID_ARGUMENT;
}

void draw_say_fault(const struct draw *draw, struct error *error)
{
    const float logit = isnan(draw->logit) ? NAN : draw->logit; /* without a sign */
    if (draw->mask && draw->mask_fault && draw->status != STATUS_LOGITS_NOT_FINITE) {
        error_write(error, "sampling.constraint, after %u tokens: %s", draw->n_tokens,
                    draw->mask_fault);
        return;
    }
    if (draw->status == STATUS_INVALID_ARGUMENT || draw->status == STATUS_CONSTRAINT_UNMET) {
        error_write(
            error,
            "sampling leaves no token to draw after %u tokens: %sallowed_token_ids, bad_words, "
            "no_repeat_ngram_size and min_tokens exclude all",
            draw->n_tokens, draw->mask ? "constraint, " : "");
        return;
    }
    assert(draw->status == STATUS_LOGITS_NOT_FINITE);
    error_write(error,
                "the model overflows on this request: after %u tokens the logit of token %u is %g",
                draw->n_tokens, draw->token_id, (double)logit);
}

/* ---- a device that finds candidates ---- */

/* NULL: the row has too many penalties. n_listed: the penalties of the rows before. */
static const struct forward_wish *wish_for(struct draws *draws, const struct draw *draw,
                                           uint32_t row, size_t *n_listed)
{
    const struct sampling_penalty *list;
    assert(!draw->ranked && "the device finds what draws need");
    const uint32_t n = sampler_list_penalties(draws->sampler, draw, &list);
    struct sampling_penalty *kept = draws->penalties + *n_listed;
    assert(n <= draws->vocabulary && *n_listed <= (size_t)row * FORWARD_PENALTIES_MAX);
    if (n > FORWARD_PENALTIES_MAX || sampler_takes_row(draw))
        return NULL;
    memcpy(kept, list, n * sizeof *list);
    *n_listed += n;
    draws->wishes[row] = (struct forward_wish){.temperature = draw->params->temperature,
                                               .n_top = draw->params->n_logprobs,
                                               .penalties = kept,
                                               .n_penalties = n};
    return &draws->wishes[row];
}

/* Sets the wishes of all sequences. Returns the number of rows. */
static uint32_t wish_all(struct draws *draws, struct forward_sequence *sequences,
                         uint32_t n_sequences, const struct draw *wanted)
{
    uint32_t n_rows = 0;
    size_t n_listed = 0;
    for (uint32_t i = 0; i < n_sequences; i++) {
        sequences[i].wish = NULL;
        if (!sequences[i].wants_logits)
            continue;
        assert(n_rows < draws->rows_max);
        sequences[i].wish = wish_for(draws, &wanted[n_rows], n_rows, &n_listed);
        n_rows++;
    }
    return n_rows;
}

/* is_found: the row had a wish. DEVICE_LOST. */
static enum status draw_row(struct draws *draws, struct draw *draw, uint32_t row, bool is_found)
{
    const struct sampling_result *found = &draws->found[row];
    const bool is_finite = is_found && isfinite(found->log_sum_exp) && isfinite(found->largest);
    draw->status = STATUS_OK;
    if (is_finite && sampler_draw_found(draws->sampler, draw, found))
        return STATUS_OK;
    draws->n_fetched++;
    TRY(forward_fetch(draws->forward, row, draws->rows));
    if (is_finite)
        sampler_draw_behind(draws->sampler, draw, found, draws->rows);
    else
        draw_from_row(draws, draw, draws->rows);
    return STATUS_OK;
}

static enum status run_found(struct draws *draws, struct forward_sequence *sequences,
                             uint32_t n_sequences, uint32_t n_contexts, struct draw *wanted)
{
    const uint32_t n_rows = wish_all(draws, sequences, n_sequences, wanted);
    TRY(forward_find(draws->forward, sequences, n_sequences, n_contexts, draws->found));
    for (uint32_t i = 0, row = 0; i < n_sequences; i++) {
        if (!sequences[i].wants_logits)
            continue;
        TRY(draw_row(draws, &wanted[row], row, sequences[i].wish));
        row++;
        assert(row <= n_rows);
    }
    return STATUS_OK;
}

/* ---- a step ---- */

enum status draws_run(struct draws *draws, struct forward_sequence *sequences, uint32_t n_sequences,
                      uint32_t n_contexts, struct draw *draws_inout)
{
    if (draws->found)
        return run_found(draws, sequences, n_sequences, n_contexts, draws_inout);
    TRY(forward_run(draws->forward, sequences, n_sequences, n_contexts, draws->rows));
    uint32_t n_rows = 0;
    for (uint32_t i = 0; i < n_sequences; i++) {
        if (!sequences[i].wants_logits)
            continue;
        assert(n_rows < draws->rows_max);
        draws_inout[n_rows].status = STATUS_OK;
        draw_from_row(draws, &draws_inout[n_rows],
                      draws->rows + (size_t)n_rows * draws->vocabulary);
        n_rows++;
    }
    return STATUS_OK;
}

/* Nothing behind a token that was guessed wrongly is drawn. */
static bool is_over(const struct draws_rows *run)
{
    if (run->n_drawn == 0)
        return false;
    const struct draw *last = &run->list[run->n_drawn - 1];
    return last->status != STATUS_OK || last->token_id != last->tokens[last->n_tokens];
}

enum status draws_check(struct draws *draws, const struct forward_sequence *sequences,
                        uint32_t n_sequences, uint32_t n_contexts, struct draws_rows *runs)
{
    uint32_t n_rows = 0, row = 0;
    assert(!draws->found);
    TRY(forward_run(draws->forward, sequences, n_sequences, n_contexts, draws->rows));
    for (uint32_t i = 0; i < n_sequences; i++) {
        assert(!sequences[i].wants_logits && sequences[i].n_query == runs[i].n);
        runs[i].n_drawn = 0;
        n_rows += runs[i].n;
    }
    for (uint32_t i = 0, first = 0, end = 0; i < n_sequences; i++)
        for (uint32_t at = 0; at < runs[i].n; at++, row++) {
            if (is_over(&runs[i]))
                continue;
            if (row >= end) {
                const uint32_t left = n_rows - row;
                first = row;
                end = row + (left < draws->rows_max ? left : draws->rows_max);
                TRY(forward_rows(draws->forward, first, end - first, draws->rows));
            }
            const uint32_t place = row - first;
            runs[i].list[at].status = STATUS_OK;
            draw_from_row(draws, &runs[i].list[at],
                          draws->rows + (size_t)place * draws->vocabulary);
            runs[i].n_drawn++;
        }
    return STATUS_OK;
}

uint64_t draws_n_fetched(const struct draws *draws)
{
    return draws->n_fetched;
}

uint64_t draws_n_not_finite(const struct draws *draws)
{
    return draws->n_not_finite;
}
