/*
 *     run_stage(0, text)
 *         run_pattern cuts it -> joiner joins what belongs together -> run_stage(1, piece) ...
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

/* Appends a stage; its behavior is the caller's to set. */
static enum status add_stage(struct splitter *splitter, const struct field *field,
                             const char *pattern, size_t n_bytes, struct error *error)
{
    struct split_stage *stage = &splitter->stages[splitter->n_stages];

    if (splitter->n_stages == SPLIT_STAGES_MAX)
        return error_set(error, STATUS_UNSUPPORTED, "%s is one too many, at most %d are supported",
                         field->path, SPLIT_STAGES_MAX);
    TRY(split_pattern_create(pattern, n_bytes, field->path, error, &stage->pattern));
    splitter->n_stages++;
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

/* Puts a backslash before punctuation, so that the text stands for itself. */
static size_t quote(const char *text, size_t n_bytes, char *out)
{
    size_t n_out = 0;

    for (size_t i = 0; i < n_bytes; i++) {
        if (text[i] && strchr("\\^$.[]|()*+?{}-&#~", text[i]))
            out[n_out++] = '\\';
        out[n_out++] = text[i];
    }
    return n_out;
}

/* Split: {"pattern": {"Regex" or "String": ..}, "behavior": .., "invert": ..}. */
static enum status read_split(struct splitter *splitter, const struct field *split,
                              struct error *error)
{
    struct field pattern = field_member(split, "pattern");
    struct field regex = field_member(&pattern, "Regex");
    struct field string = field_member(&pattern, "String");
    struct field invert = field_member(split, "invert");
    struct split_stage *stage = &splitter->stages[splitter->n_stages];
    char quoted[2 * SPLIT_PATTERN_BYTES_MAX];
    const char *text;
    size_t n_bytes;

    TRY(field_need_object(&pattern, error));
    bool is_string = field_is_absent(&regex) && !field_is_absent(&string);
    TRY(field_text(is_string ? &string : &regex, error, &text, &n_bytes));
    if (is_string && n_bytes <= SPLIT_PATTERN_BYTES_MAX) {
        n_bytes = quote(text, n_bytes, quoted);
        text = quoted;
    }
    TRY(add_stage(splitter, is_string ? &string : &regex, text, n_bytes, error));
    TRY(field_bool(&invert, error, &stage->invert));
    return read_behavior(split, error, &stage->behavior);
}

/* Digits: every character of N, one by one or in runs. */
static enum status read_digits(struct splitter *splitter, const struct field *digits,
                               struct error *error)
{
    static const char numeric[] = "\\p{N}";
    struct field individual_field = field_member(digits, "individual_digits");
    struct split_stage *stage = &splitter->stages[splitter->n_stages];
    bool individual = false;

    TRY(field_bool(&individual_field, error, &individual));
    TRY(add_stage(splitter, digits, numeric, sizeof numeric - 1, error));
    stage->behavior = individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
    return STATUS_OK;
}

/* ByteLevel: its defaults are those of the tokenizers package. */
static enum status read_byte_level(struct splitter *splitter, const struct field *byte_level,
                                   struct error *error)
{
    struct field prefix = field_member(byte_level, "add_prefix_space");
    struct field regex = field_member(byte_level, "use_regex");
    struct split_stage *stage = &splitter->stages[splitter->n_stages];
    bool use_regex = true;

    splitter->has_byte_level = true;
    splitter->prefix_stage = splitter->n_stages;
    splitter->add_prefix_space = true;
    TRY(field_bool(&prefix, error, &splitter->add_prefix_space));
    TRY(field_bool(&regex, error, &use_regex));
    if (!use_regex)
        return STATUS_OK;
    TRY(add_stage(splitter, byte_level, GPT2_PATTERN, sizeof GPT2_PATTERN - 1, error));
    stage->behavior = SPLIT_ISOLATED;
    return STATUS_OK;
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
    if (status == STATUS_OK && !splitter->has_byte_level)
        status = error_set(error, STATUS_UNSUPPORTED,
                           "%s has no ByteLevel; only byte-level tokenizers are supported",
                           pre_tokenizer->path);
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

/* Running */

struct fragment {
    size_t begin;
    size_t end;
    bool is_match;
};

/* Joins the fragments of one stage as its behavior says; at most one waits for what follows. */
struct joiner {
    struct split_run *run;
    unsigned stage;
    const char *text;
    struct fragment waiting;
    bool has_waiting;
    bool last_was_match;
};

static enum status run_stage(struct split_run *run, unsigned stage, const char *text,
                             size_t n_bytes);

static enum status pass_on(struct joiner *joiner, size_t begin, size_t end)
{
    assert(begin <= end);
    if (begin == end) /* an empty match parts its neighbours and is no piece */
        return STATUS_OK;
    return run_stage(joiner->run, joiner->stage + 1, joiner->text + begin, end - begin);
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
static enum status run_pattern(struct split_run *run, unsigned stage, const char *text,
                               size_t n_bytes)
{
    struct joiner joiner = {.run = run, .stage = stage, .text = text};
    struct split_search search = {.text = text, .n_bytes = n_bytes};
    size_t end = 0;

    for (;;) {
        bool found;
        size_t range[2];
        assert(end <= n_bytes);
        TRY(split_pattern_next(run->splitter->stages[stage].pattern, run->matcher, &search,
                               run->error, &found, range));
        if (!found)
            break;
        if (range[0] > end)
            TRY(joiner_add(&joiner, (struct fragment){end, range[0], false}));
        TRY(joiner_add(&joiner, (struct fragment){range[0], range[1], true}));
        end = range[1];
    }
    if (end < n_bytes)
        TRY(joiner_add(&joiner, (struct fragment){end, n_bytes, false}));
    return joiner_flush(&joiner);
}

/* Pieces go down one at a time, so one buffer does for all of them. */
static enum status prefix_space(struct split_run *run, const char **text, size_t *n_bytes)
{
    if (*n_bytes + 1 > run->prefixed_max) {
        char *prefixed = realloc(run->prefixed, *n_bytes + 1);
        if (!prefixed)
            return STATUS_NO_MEMORY;
        run->prefixed = prefixed;
        run->prefixed_max = *n_bytes + 1;
    }
    run->prefixed[0] = ' ';
    memcpy(run->prefixed + 1, *text, *n_bytes);
    *text = run->prefixed;
    ++*n_bytes;
    return STATUS_OK;
}

static enum status run_stage(struct split_run *run, unsigned stage, const char *text,
                             size_t n_bytes)
{
    const struct splitter *splitter = run->splitter;

    assert(n_bytes > 0 && stage <= splitter->n_stages);
    if (stage == splitter->prefix_stage && splitter->add_prefix_space && text[0] != ' ')
        TRY(prefix_space(run, &text, &n_bytes));
    if (stage == splitter->n_stages)
        return run->emit(run->arg, text, n_bytes);
    return run_pattern(run, stage, text, n_bytes);
}

enum status split_run(struct split_run *run, const char *text, size_t n_bytes)
{
    assert(run->matcher && run->emit && run->splitter->has_byte_level);
    return n_bytes == 0 ? STATUS_OK : run_stage(run, 0, text, n_bytes);
}

void split_run_finish(struct split_run *run)
{
    free(run->prefixed);
    run->prefixed = NULL;
    run->prefixed_max = 0;
}
