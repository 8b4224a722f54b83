/*
 *     run_stage(0, text)
 *         run_pattern splits it -> joiner joins fragments by the behavior -> run_stage(1, piece) ...
 *             run_stage(n_stages, piece) -> emit
 *
 * Depth first, so pieces leave in the order of the text.
 */
#include "tokenizer/splitter.h"

#include "tokenizer/field.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NESTING_MAX 8

static const char GPT2_PATTERN[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* Building */

/* The next stage, zero. */
static enum status add_stage(struct splitter *splitter, const struct field *field,
                             struct error *error, struct split_stage **stage_out)
{
    if (splitter->n_stages == SPLIT_STAGES_MAX)
        return error_set(error, STATUS_UNSUPPORTED, "%s is one too many, at most %d are supported",
                         field->path, SPLIT_STAGES_MAX);
    *stage_out = &splitter->stages[splitter->n_stages++];
    return STATUS_OK;
}

static enum status read_behavior(const struct field *split, struct error *error,
                                 enum split_behavior *behavior_out)
{
    static const char *const names[] = {
        [SPLIT_REMOVED] = "Removed",
        [SPLIT_ISOLATED] = "Isolated",
        [SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
        [SPLIT_CONTIGUOUS] = "Contiguous",
    };
    struct field behavior = field_member(split, "behavior");
    const char *name;

    TRY(field_text(&behavior, error, &name, NULL));
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            *behavior_out = (enum split_behavior)i;
            return STATUS_OK;
        }
    }
    return field_refuse(&behavior, error, name);
}

/* Split: {"pattern": {"Regex" or "String": ..}, "behavior": .., "invert": ..}. */
static enum status read_split(struct splitter *splitter, const struct field *split,
                              struct error *error)
{
    struct field pattern = field_member(split, "pattern");
    struct field invert = field_member(split, "invert");
    struct split_stage *stage;

    TRY(add_stage(splitter, split, error, &stage));
    TRY(split_pattern_read(&pattern, error, &stage->pattern));
    TRY(field_bool(&invert, error, &stage->invert));
    return read_behavior(split, error, &stage->behavior);
}

/* Digits: every character of N, one by one or in runs. */
static enum status read_digits(struct splitter *splitter, const struct field *digits,
                               struct error *error)
{
    struct field individual_field = field_member(digits, "individual_digits");
    struct split_stage *stage;
    bool individual = false;

    TRY(field_bool(&individual_field, error, &individual));
    TRY(add_stage(splitter, digits, error, &stage));
    stage->behavior = individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
    return split_pattern_create_native("\\p{N}", &stage->pattern);
}

/* ByteLevel: its defaults are those of the tokenizers package. */
static enum status read_byte_level(struct splitter *splitter, const struct field *byte_level,
                                   struct error *error)
{
    struct field prefix_field = field_member(byte_level, "add_prefix_space");
    struct field regex_field = field_member(byte_level, "use_regex");
    struct split_stage *stage;
    bool add_prefix = true;
    bool use_regex = true;

    splitter->has_byte_level = true;
    TRY(field_bool(&prefix_field, error, &add_prefix));
    TRY(field_bool(&regex_field, error, &use_regex));
    if (!add_prefix && !use_regex)
        return STATUS_OK;
    TRY(add_stage(splitter, byte_level, error, &stage));
    stage->behavior = SPLIT_ISOLATED;
    if (add_prefix) {
        stage->space[0] = ' ';
        stage->n_space = 1;
        stage->prepend = PREPEND_ALWAYS;
    }
    return use_regex ? split_pattern_create(GPT2_PATTERN, sizeof GPT2_PATTERN - 1, byte_level->path,
                                            error, &stage->pattern)
                     : STATUS_OK;
}

/* Of old add_prefix_space stood alone; now it may only say the same. */
static enum status read_prepend_scheme(const struct field *metaspace, struct error *error,
                                       enum prepend_scheme *scheme_out)
{
    static const char *const names[] = {
        [PREPEND_NEVER] = "never",
        [PREPEND_ALWAYS] = "always",
        [PREPEND_FIRST] = "first",
    };
    struct field scheme = field_member(metaspace, "prepend_scheme");
    struct field prefix = field_member(metaspace, "add_prefix_space");
    bool add_prefix = true;
    const char *name;

    TRY(field_bool(&prefix, error, &add_prefix));
    *scheme_out = add_prefix ? PREPEND_ALWAYS : PREPEND_NEVER;
    if (field_is_absent(&scheme))
        return STATUS_OK;
    TRY(field_text(&scheme, error, &name, NULL));
    if (!add_prefix && strcmp(name, names[PREPEND_NEVER]) != 0)
        return error_set(error, STATUS_CORRUPT, "%s is %.60s, but add_prefix_space is false",
                         scheme.path, name);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            *scheme_out = (enum prepend_scheme)i;
            return STATUS_OK;
        }
    }
    return field_refuse(&scheme, error, name);
}

enum status metaspace_read(const struct field *metaspace, struct error *error, char space_out[4],
                           size_t *n_space_out, enum prepend_scheme *scheme_out)
{
    struct field replacement = field_member(metaspace, "replacement");

    TRY(field_character(&replacement, error, space_out, n_space_out));
    return read_prepend_scheme(metaspace, error, scheme_out);
}

/* Metaspace: cut before each of its characters, unless split is false. */
static enum status read_metaspace(struct splitter *splitter, const struct field *metaspace,
                                  struct error *error)
{
    struct field split_field = field_member(metaspace, "split");
    struct split_stage *stage;
    bool split = true;

    TRY(field_bool(&split_field, error, &split));
    TRY(add_stage(splitter, metaspace, error, &stage));
    TRY(metaspace_read(metaspace, error, stage->space, &stage->n_space, &stage->prepend));
    stage->behavior = SPLIT_MERGED_WITH_NEXT;
    return split ? split_pattern_create_literal(stage->space, stage->n_space, metaspace->path,
                                                error, &stage->pattern)
                 : STATUS_OK;
}

static enum status read_one(struct splitter *splitter, const struct field *field, unsigned depth,
                            struct error *error)
{
    const char *type;

    TRY(field_type(field, error, &type));
    if (depth == NESTING_MAX)
        return error_set(error, STATUS_UNSUPPORTED, "%s is nested too deep", field->path);
    if (splitter->has_byte_level && strcmp(type, "Sequence") != 0)
        return error_set(error, STATUS_UNSUPPORTED, "%s comes after ByteLevel, which must be last",
                         field->path);
    if (strcmp(type, "Split") == 0)
        return read_split(splitter, field, error);
    if (strcmp(type, "Digits") == 0)
        return read_digits(splitter, field, error);
    if (strcmp(type, "Metaspace") == 0)
        return read_metaspace(splitter, field, error);
    if (strcmp(type, "ByteLevel") == 0)
        return read_byte_level(splitter, field, error);
    if (strcmp(type, "Sequence") != 0)
        return field_refuse(field, error, type);

    struct field members = field_member(field, "pretokenizers");
    TRY(field_need_array(&members, error));
    for (size_t i = 0; i < field_length(&members); i++) {
        struct field member = field_element(&members, i);
        TRY(read_one(splitter, &member, depth + 1, error));
    }
    return STATUS_OK;
}

enum status splitter_init(struct splitter *splitter, const struct field *pre_tokenizer,
                          struct error *error)
{
    *splitter = (struct splitter){0};
    enum status status = STATUS_OK;

    if (!field_is_absent(pre_tokenizer))
        status = read_one(splitter, pre_tokenizer, 0, error);
    if (status != STATUS_OK)
        splitter_finish(splitter);
    return status;
}

void splitter_finish(struct splitter *splitter)
{
    for (unsigned i = 0; i < SPLIT_STAGES_MAX; i++)
        split_pattern_destroy(splitter->stages[i].pattern);
    *splitter = (struct splitter){0};
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

static enum status run_stage(struct split_run *run, unsigned stage, struct piece piece)
{
    const struct splitter *splitter = run->splitter;

    assert(piece.n_bytes > 0 && stage <= splitter->n_stages);
    if (stage == splitter->n_stages)
        return run->emit(run->arg, piece.text, piece.n_bytes);
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
