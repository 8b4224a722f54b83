/*
 *     run_stage(0, text)
 *         run_pattern splits it -> joiner joins fragments by the behavior -> run_stage(1, piece) ...
 *             run_stage(n_stages, piece) -> emit
 *
 * Depth first, so pieces leave in the order of the text.
 */
#include "tokenizer/pre_tokenizer/splitter.h"

#include "tokenizer/files/byte_alphabet.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void splitter_finish(struct splitter *splitter)
{
    for (unsigned i = 0; i < SPLIT_STAGES_MAX; i++)
        split_pattern_destroy(splitter->stages[i].pattern);
    *splitter = (struct splitter){0};
}

bool splitter_ends_in_bytes(const struct splitter *splitter)
{
    return splitter->n_stages > 0 && splitter->stages[splitter->n_stages - 1].spells_bytes;
}

void splitter_leave_bytes(struct splitter *splitter)
{
    assert(splitter_ends_in_bytes(splitter));
    splitter->stages[--splitter->n_stages] = (struct split_stage){0};
}

bool splitter_prepends(const struct splitter *splitter)
{
    for (unsigned i = 0; i < splitter->n_stages; i++)
        if (splitter->stages[i].prepend != PREPEND_NEVER)
            return true;
    return false;
}

/* Running */

/* A piece of text on its way through the stages. */
struct piece {
    const char *text;
    size_t n_bytes;
    bool is_first; /* it begins where the whole text does */
};

struct fragment {
    size_t begin;
    size_t end;
    bool is_match;
};

/* Joins the fragments of one stage as its behavior says; at most one waits for what follows. */
struct joiner {
    struct split_run *run;
    unsigned stage;
    struct piece piece;
    struct fragment waiting;
    bool has_waiting;
    bool last_was_match;
};

static enum status run_stage(struct split_run *run, unsigned stage, struct piece piece);

static enum status pass_on(struct joiner *joiner, size_t begin, size_t end)
{
    assert(begin <= end);
    if (begin == end) /* an empty match parts its neighbours and is no piece */
        return STATUS_OK;
    return run_stage(joiner->run, joiner->stage + 1,
                     (struct piece){joiner->piece.text + begin, end - begin,
                                    joiner->piece.is_first && begin == 0});
}

static enum status joiner_flush(struct joiner *joiner)
{
    if (!joiner->has_waiting)
        return STATUS_OK;
    joiner->has_waiting = false;
    return pass_on(joiner, joiner->waiting.begin, joiner->waiting.end);
}

/* Whether the new fragment continues the one that waits. */
static bool joins(const struct joiner *joiner, enum split_behavior behavior, bool is_match)
{
    if (!joiner->has_waiting)
        return false;
    if (behavior == SPLIT_CONTIGUOUS)
        return joiner->waiting.is_match == is_match;
    if (behavior == SPLIT_MERGED_WITH_PREVIOUS)
        return is_match && !joiner->last_was_match;
    return joiner->waiting.is_match && !is_match; /* SPLIT_MERGED_WITH_NEXT */
}

static enum status joiner_add(struct joiner *joiner, struct fragment fragment)
{
    const struct split_stage *stage = &joiner->run->splitter->stages[joiner->stage];
    assert(!joiner->has_waiting || joiner->waiting.end == fragment.begin);

    fragment.is_match ^= stage->invert;
    if (stage->behavior == SPLIT_REMOVED)
        return fragment.is_match ? STATUS_OK : pass_on(joiner, fragment.begin, fragment.end);
    if (stage->behavior == SPLIT_ISOLATED)
        return pass_on(joiner, fragment.begin, fragment.end);

    if (joins(joiner, stage->behavior, fragment.is_match)) {
        joiner->waiting.end = fragment.end;
        joiner->waiting.is_match = fragment.is_match;
    } else {
        TRY(joiner_flush(joiner));
        joiner->waiting = fragment;
        joiner->has_waiting = true;
    }
    joiner->last_was_match = fragment.is_match;
    return STATUS_OK;
}

/* Matches and what lies between them, in the order of the text. */
static enum status run_pattern(struct split_run *run, unsigned stage, struct piece piece)
{
    struct joiner joiner = {.run = run, .stage = stage, .piece = piece};
    struct split_search search = {.text = piece.text, .n_bytes = piece.n_bytes};
    size_t end = 0;

    for (;;) {
        bool found;
        size_t range[2];
        assert(end <= piece.n_bytes);
        TRY(split_pattern_next(run->splitter->stages[stage].pattern, run->matcher, &search,
                               run->error, &found, range));
        if (!found)
            break;
        if (range[0] > end)
            TRY(joiner_add(&joiner, (struct fragment){end, range[0], false}));
        TRY(joiner_add(&joiner, (struct fragment){range[0], range[1], true}));
        end = range[1];
    }
    if (end < piece.n_bytes)
        TRY(joiner_add(&joiner, (struct fragment){end, piece.n_bytes, false}));
    return joiner_flush(&joiner);
}

static enum status rewritten_reserve(struct split_run *run, unsigned stage, size_t n_bytes)
{
    if (n_bytes <= run->rewritten_max[stage])
        return STATUS_OK;
    char *grown = realloc(run->rewritten[stage], n_bytes);
    if (!grown)
        return STATUS_NO_MEMORY;
    run->rewritten[stage] = grown;
    run->rewritten_max[stage] = n_bytes;
    return STATUS_OK;
}

static size_t count_spaces(const struct piece *piece)
{
    size_t n = 0;
    for (size_t i = 0; i < piece->n_bytes; i++)
        n += piece->text[i] == ' ';
    return n;
}

/* Pieces go down one at a time, so each stage needs only one buffer. */
static enum status rewrite(struct split_run *run, unsigned stage_index, struct piece *piece)
{
    const struct split_stage *stage = &run->splitter->stages[stage_index];
    size_t n_bytes = 0;

    TRY(rewritten_reserve(run, stage_index,
                          piece->n_bytes + stage->n_space * (count_spaces(piece) + 1)));
    char *made = run->rewritten[stage_index];
    bool has_prefix = piece->text[0] == ' ' ||
                      (piece->n_bytes >= stage->n_space &&
                       memcmp(piece->text, stage->space, stage->n_space) == 0);
    if (!has_prefix &&
        (stage->prepend == PREPEND_ALWAYS || (stage->prepend == PREPEND_FIRST && piece->is_first)))
        n_bytes = stage->n_space;
    memcpy(made, stage->space, n_bytes);
    for (size_t i = 0; i < piece->n_bytes; i++) {
        size_t length = piece->text[i] == ' ' ? stage->n_space : 1;
        memcpy(made + n_bytes, piece->text[i] == ' ' ? stage->space : piece->text + i, length);
        n_bytes += length;
    }
    piece->text = made;
    piece->n_bytes = n_bytes;
    return STATUS_OK;
}

/* A character of the alphabet has two bytes at most. */
static enum status spell_bytes(struct split_run *run, unsigned stage, struct piece *piece)
{
    size_t n_bytes = 0;

    TRY(rewritten_reserve(run, stage, 2 * piece->n_bytes));
    for (size_t i = 0; i < piece->n_bytes; i++)
        n_bytes += byte_alphabet_write((uint8_t)piece->text[i], run->rewritten[stage] + n_bytes);
    piece->text = run->rewritten[stage];
    piece->n_bytes = n_bytes;
    return STATUS_OK;
}

static enum status run_stage(struct split_run *run, unsigned stage, struct piece piece)
{
    const struct splitter *splitter = run->splitter;

    assert(piece.n_bytes > 0 && stage <= splitter->n_stages);
    if (stage == splitter->n_stages)
        return run->emit(run->arg, piece.text, piece.n_bytes);
    if (splitter->stages[stage].spells_bytes)
        TRY(spell_bytes(run, stage, &piece));
    if (splitter->stages[stage].n_space > 0)
        TRY(rewrite(run, stage, &piece));
    return splitter->stages[stage].pattern ? run_pattern(run, stage, piece)
                                           : run_stage(run, stage + 1, piece);
}

enum status split_run(struct split_run *run, const char *text, size_t n_bytes, bool is_first)
{
    assert(run->matcher && run->emit);
    return n_bytes == 0 ? STATUS_OK : run_stage(run, 0, (struct piece){text, n_bytes, is_first});
}

void split_run_finish(struct split_run *run)
{
    for (unsigned i = 0; i < SPLIT_STAGES_MAX; i++)
        free(run->rewritten[i]);
    *run = (struct split_run){0};
}
