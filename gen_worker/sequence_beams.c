#include "gen_worker/sequence_beams.h"

#include "gen_worker/gen_home.h"
#include "gen_worker/job.h"
#include "model/sampling/beam_search.h"
#include "schedule/schedule.h"
#include "tokenizer/tokenizer.h"

#include <assert.h>
#include <string.h>

bool sequence_searches(const struct sequence *sequence)
{
    return sequence->job->search != NULL;
}

static uint32_t n_beams_max(const struct sequence *sequence)
{
    return sequence->job->request.sampling.beams.n_beams;
}

/* ---- lent sequences ---- */

static void forget_copies(struct sequence_beams *beams)
{
    for (uint32_t i = 0; i < BEAMS_MAX; i++)
        beams->slots[i] = beams->sources[i] = i;
}

/* A vocabulary may be larger than the tokenizer's. */
static size_t text_of(const void *arg, uint32_t token_id, char text_out[BEAM_TOKEN_BYTES_MAX])
{
    static_assert(TOKEN_BYTES_MAX <= BEAM_TOKEN_BYTES_MAX, "room for each token");
    const struct tokenizer *tokenizer = arg;
    return token_id < tokenizer_n_ids(tokenizer)
               ? tokenizer_token_text(tokenizer, token_id, text_out)
               : 0;
}

void sequence_take_beams(struct sequence *sequence, const struct gen_home *home)
{
    struct sequence_beams *beams = &sequence->beams;
    const struct engine_request *request = &sequence->job->request;
    uint32_t at = 0;
    assert(!engine_request_needs_desk(request));
    if (request->needs_tokenizer)
        beam_search_set_texts(sequence->job->search,
                              &(struct beam_texts){.text = text_of, .arg = request->tokenizer});
    forget_copies(beams);
    beams->lent[0] = sequence;
    for (uint32_t i = 1; i < n_beams_max(sequence); i++) {
        while (home->sequences[at].state != SEQUENCE_FREE) {
            at++;
            assert(at < home->options->sequences_max && "the schedule counts places");
        }
        beams->lent[i] = &home->sequences[at];
        beams->lent[i]->state = SEQUENCE_LENT;
        kv_manager_set_window(home->manager, &beams->lent[i]->table, 0);
    }
}

static void free_tables(struct sequence *sequence, const struct gen_home *home)
{
    for (uint32_t i = 1; i < n_beams_max(sequence); i++)
        kv_manager_free(home->manager, &sequence->beams.lent[i]->table);
    forget_copies(&sequence->beams);
}

void sequence_leave_beams(struct sequence *sequence, const struct gen_home *home)
{
    free_tables(sequence, home);
    for (uint32_t i = 1; i < n_beams_max(sequence); i++)
        sequence->beams.lent[i]->state = SEQUENCE_FREE;
}

void sequence_restart_beams(struct sequence *sequence, const struct gen_home *home)
{
    free_tables(sequence, home);
    beam_search_restart(sequence->job->search);
    sequence->n_tokens = sequence_n_prompt(sequence);
    schedule_restart(home->schedule, sequence_schedule_id(sequence));
}

uint32_t sequence_n_running(const struct sequence *sequence)
{
    return beam_search_n_running(sequence->job->search);
}

struct sequence *sequence_beam(const struct sequence *sequence, uint32_t i)
{
    assert(i < sequence_n_running(sequence));
    return sequence->beams.lent[sequence->beams.slots[i]];
}

/* ---- copies ---- */

/* Which slots the beams that go on have; the first one behind each parent keeps its slot, others copy. */
static void place(struct sequence_beams *beams, const struct beam *running, uint32_t n)
{
    uint32_t slots[BEAMS_MAX];
    bool is_kept[BEAMS_MAX] = {false}, has_slot[BEAMS_MAX] = {false};
    uint32_t unused = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t slot = beams->slots[running[i].parent];
        if (is_kept[slot])
            continue;
        is_kept[slot] = has_slot[i] = true;
        slots[i] = slot;
        beams->sources[slot] = slot;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (has_slot[i])
            continue;
        while (is_kept[unused])
            unused++;
        slots[i] = unused;
        beams->sources[unused++] = beams->slots[running[i].parent];
    }
    memcpy(beams->slots, slots, n * sizeof *slots);
}

enum status sequence_prepare_beams(struct sequence *sequence, const struct gen_home *home,
                                   const struct block_need *need)
{
    struct sequence_beams *beams = &sequence->beams;
    for (uint32_t i = 0; i < sequence_n_running(sequence); i++) {
        const uint32_t slot = beams->slots[i], source = beams->sources[slot];
        struct block_table *table = &beams->lent[slot]->table;
        if (source != slot)
            TRY(kv_manager_copy(home->manager, table, &beams->lent[source]->table, need->position));
        beams->sources[slot] = slot;
    }
    /* Those that do not run, too: the schedule counts their blocks, and they may become copies later. */
    const struct block_table *first = &sequence_beam(sequence, 0)->table;
    for (uint32_t i = 0; i < n_beams_max(sequence); i++) {
        struct block_table *table = &beams->lent[i]->table;
        if (table->n_blocks == 0)
            TRY(kv_manager_copy(home->manager, table, first, need->position));
    }
    for (uint32_t i = 0; i < n_beams_max(sequence); i++)
        TRY(kv_manager_prepare(home->manager, &beams->lent[i]->table, need));
    return STATUS_OK;
}

void sequence_settle_beams(struct sequence *sequence, const struct gen_home *home,
                           uint32_t position)
{
    for (uint32_t i = 1; i < n_beams_max(sequence); i++)
        if (sequence->beams.lent[i]->table.n_blocks > 0)
            kv_manager_settle(home->manager, &sequence->beams.lent[i]->table, position,
                              KV_NEXT_REPLY);
}

/* ---- a step ---- */

/* What was generated before this step. */
static void copy_tokens(struct sequence *sequence)
{
    const struct sequence_beams *beams = &sequence->beams;
    for (uint32_t i = 0; i < sequence_n_running(sequence); i++) {
        const uint32_t slot = beams->slots[i], source = beams->sources[slot];
        if (source != slot)
            memcpy(beams->lent[slot]->tokens, beams->lent[source]->tokens,
                   sequence->n_tokens * sizeof *sequence->tokens);
    }
}

enum status sequence_advance_beams(struct sequence *sequence, const struct ranked_row *rows,
                                   struct error *error)
{
    struct beam_search *search = sequence->job->search;
    const struct ranked_row *list[BEAMS_MAX];
    const uint32_t n_best = sequence->job->request.sampling.beams.n_best;
    for (uint32_t i = 0; i < beam_search_n_running(search); i++)
        list[i] = &rows[i];
    beam_search_step(search, list);
    const struct beam *running = beam_search_running(search);
    const uint32_t n = beam_search_n_running(search);
    place(&sequence->beams, running, n);
    copy_tokens(sequence);
    for (uint32_t i = 0; i < n; i++)
        sequence_beam(sequence, i)->tokens[sequence->n_tokens] = running[i].token_id;
    sequence->n_tokens++;
    if (!beam_search_is_over(search) || beam_search_n_results(search) >= n_best)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "of the %u replies of a beam search that n asks for, the rules of sampling "
                     "leave %u",
                     n_best, beam_search_n_results(search));
}
