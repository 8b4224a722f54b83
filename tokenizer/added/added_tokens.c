/*
 * The search tries the tree at every byte. A token begins with a first byte of a character, so no
 * match can begin within one. The flags then act as in the tokenizers package: a token that is
 * passed over (special but not wanted, or not alone) hides what is written inside it.
 */
#include "tokenizer/added/added_tokens.h"

#include "base/utf8.h"
#include "tokenizer/files/field.h"
#include "tokenizer/halt.h"
#include "tokenizer/normalizer/normalizer.h"
#include "tokenizer/pattern/split_pattern.h"
#include "tokenizer/tokens.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* \w as Unicode has it (UTS 18, annex C). */
static const char WORD_CHARACTER[] = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}]";

/* What reading one token needs. */
struct reading {
    struct added_tokens *added;
    const struct normalizer *normalizer;
    struct split_matcher *matcher;
    struct error *error;
};

static enum status place(struct added_tokens *added, uint32_t index, bool normalized,
                         const char *content, size_t n_bytes)
{
    struct byte_tree *set = normalized ? &added->normalized : &added->plain;
    return byte_tree_add(set, content, n_bytes, index);
}

/* Of a token that is empty once normalized the tokenizers package finds one between any two characters,
 * so that nothing merges any more. */
static enum status normalize(struct reading *reading, const struct field *content, const char *text,
                             size_t n_bytes, struct rewritten *normal_out)
{
    enum status status = normalizer_run(reading->normalizer, reading->matcher, text, n_bytes,
                                        reading->error, normal_out);

    if (status == STATUS_INVALID_ARGUMENT)
        return error_set(reading->error, STATUS_UNSUPPORTED, "%s is beyond the normalizer's limit",
                         content->path);
    if (status != STATUS_OK || normal_out->n_bytes > 0)
        return status;
    rewritten_finish(normal_out);
    return error_set(reading->error, STATUS_UNSUPPORTED,
                     "%s is empty once normalized, which is not supported", content->path);
}

/* normalized is the default of tokens that are not special, as in the tokenizers package. */
static enum status read_content(struct reading *reading, const struct field *token, uint32_t index)
{
    struct added_tokens *added = reading->added;
    struct field content = field_member(token, "content");
    struct field normalized_field = field_member(token, "normalized");
    const char *text;
    size_t n_bytes;
    bool normalized = !added->tokens[index].special;
    struct rewritten normal = {0};

    TRY(field_text(&content, reading->error, &text, &n_bytes));
    TRY(field_bool(&normalized_field, reading->error, &normalized));
    added->has_normalized_special |= normalized && added->tokens[index].special;
    bool is_rewritten = normalized && reading->normalizer->n_steps > 0;
    if (added->tokens[index].special && n_bytes > 0)
        TRY(special_tokens_add(&added->special, text, n_bytes, normalized));
    if (is_rewritten)
        TRY(normalize(reading, &content, text, n_bytes, &normal));
    enum status status = place(added, index, normalized, is_rewritten ? normal.bytes : text,
                               is_rewritten ? normal.n_bytes : n_bytes);
    rewritten_finish(&normal);
    if (status == STATUS_CORRUPT)
        return error_set(reading->error, STATUS_CORRUPT, "%s repeats \"%.60s\"", content.path,
                         text);
    return status;
}

static enum status read_token(struct reading *reading, const struct field *token, uint32_t index)
{
    struct added_token *made = &reading->added->tokens[index];
    const struct {
        const char *name;
        bool *value;
    } flags[] = {{"special", &made->special},
                 {"single_word", &made->single_word},
                 {"lstrip", &made->lstrip},
                 {"rstrip", &made->rstrip}};
    struct field id = field_member(token, "id");

    TRY(field_need_object(token, reading->error));
    TRY(field_id(&id, reading->error, &made->id));
    for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
        struct field flag = field_member(token, flags[i].name);
        TRY(field_bool(&flag, reading->error, flags[i].value));
    }
    return read_content(reading, token, index);
}

enum status added_tokens_init(struct added_tokens *added, const struct field *field,
                              const struct normalizer *normalizer, struct error *error)
{
    struct reading reading = {.added = added, .normalizer = normalizer, .error = error};
    size_t n_tokens = field_length(field);

    *added = (struct added_tokens){.tokens = calloc(n_tokens + 1, sizeof *added->tokens)};
    if (!added->tokens)
        return STATUS_NO_MEMORY;
    added->n_tokens = (uint32_t)n_tokens;
    struct halt halt = {0};
    enum status status = split_matcher_create(TOKENIZER_FILE_BYTES_MAX, &halt, &reading.matcher);
    for (uint32_t i = 0; i < n_tokens && status == STATUS_OK; i++) {
        struct field token = field_element(field, i);
        status = read_token(&reading, &token, i);
    }
    split_matcher_destroy(reading.matcher);
    if (status == STATUS_OK)
        status = split_pattern_create_native(WORD_CHARACTER, &added->word);
    if (status != STATUS_OK)
        added_tokens_finish(added);
    return status;
}

void added_tokens_finish(struct added_tokens *added)
{
    split_pattern_destroy(added->word);
    byte_tree_finish(&added->plain);
    byte_tree_finish(&added->normalized);
    special_tokens_finish(&added->special);
    free(added->tokens);
    *added = (struct added_tokens){0};
}

/* A token that is written in the text; NULL: there is none. */
struct written {
    const struct added_token *token;
    size_t n_bytes;
};

/* The longest that is written at at, and the longest special one that no mark splits. */
static void longest_at(const struct added_search *search, size_t at, struct written *longest_out,
                       struct written *whole_out)
{
    const struct byte_tree *set = search->set;
    uint32_t node = BYTE_TREE_ROOT;

    *longest_out = *whole_out = (struct written){0};
    for (size_t i = at; i < search->n_bytes; i++) {
        node = byte_tree_step(set, node, (uint8_t)search->text[i]);
        if (node == BYTE_TREE_NO_WAY)
            break;
        uint32_t number = byte_tree_number(set, node);
        if (number == BYTE_TREE_NONE)
            continue;
        *longest_out = (struct written){&search->added->tokens[number], i + 1 - at};
        if (longest_out->token->special &&
            !special_barriers_split(&search->barriers, search->text, at, i + 1))
            *whole_out = *longest_out;
    }
}

/* Behind a special token that a mark splits: its end, as of any that is passed over; but where another one begins before, which
 * no mark splits, it is the template's. */
static size_t skip_split(const struct added_search *search, size_t begin, size_t end)
{
    struct written longest, whole;
    for (size_t at = begin + 1; at < end; at++) {
        longest_at(search, at, &longest, &whole);
        if (whole.token)
            return at;
    }
    return end;
}

/* The token that is to be judged at begin; search->at is set behind it. NULL: none is. */
static const struct added_token *token_at(struct added_search *search, size_t begin)
{
    struct written longest, whole;
    longest_at(search, begin, &longest, &whole);
    search->at = begin + (longest.token ? longest.n_bytes : 1);
    if (!longest.token || !longest.token->special)
        return longest.token;
    if (search->skip_special)
        return NULL;
    if (whole.token)
        search->at = begin + whole.n_bytes;
    else
        search->at = skip_split(search, begin, search->at);
    return whole.token;
}

static enum status is_word_at(struct added_search *search, size_t at, size_t end,
                              struct error *error, bool *is_word_out)
{
    struct split_search one = {.text = search->text + at, .n_bytes = end - at};
    size_t range[2];
    return split_pattern_next(search->added->word, search->matcher, &one, error, is_word_out,
                              range);
}

/* Whether the character before begin and the one after end are no word characters. */
static enum status stands_alone(struct added_search *search, size_t begin, size_t end,
                                struct error *error, bool *alone_out)
{
    bool is_word = false;
    uint32_t codepoint;

    if (begin > 0)
        TRY(is_word_at(search, utf8_previous(search->text, begin), begin, error, &is_word));
    if (!is_word && end < search->n_bytes)
        TRY(is_word_at(search, end, end + utf8_read(search->text + end, &codepoint), error,
                       &is_word));
    *alone_out = !is_word;
    return STATUS_OK;
}

/* Where the white space that ends at at begins, not before least. */
static size_t skip_space_back(const char *text, size_t least, size_t at)
{
    while (at > least) {
        uint32_t codepoint;
        size_t previous = utf8_previous(text, at);
        utf8_read(text + previous, &codepoint);
        if (!utf8_is_white_space(codepoint))
            break;
        at = previous;
    }
    return at;
}

/* Where the white space that begins at at ends. */
static size_t skip_space(const char *text, size_t n_bytes, size_t at)
{
    while (at < n_bytes) {
        uint32_t codepoint;
        size_t length = utf8_read(text + at, &codepoint);
        if (!utf8_is_white_space(codepoint))
            break;
        at += length;
    }
    return at;
}

/* A token that takes white space on both sides can begin before the end of the one before it:
 * Transformers then reads it all the same, and so do we. */
static void take_token(struct added_search *search, const struct added_token *token, size_t begin,
                       size_t text_out[2])
{
    size_t end = search->at;
    assert(begin < end && end <= search->n_bytes);

    if (token->lstrip)
        begin = skip_space_back(search->text, search->done, begin);
    if (token->rstrip) {
        if (search->white_until < end)
            search->white_until = skip_space(search->text, search->n_bytes, end);
        end = search->white_until;
    }
    text_out[0] = search->done;
    text_out[1] = begin > search->done ? begin : search->done;
    search->done = end;
}

enum status added_search_next(struct added_search *search, struct error *error, size_t text_out[2],
                              uint32_t *id_out)
{
    assert(search->added && search->set && search->matcher);
    *id_out = TOKEN_NONE;
    while (search->set->nodes && search->at < search->n_bytes) {
        size_t begin = search->at;
        const struct added_token *token = token_at(search, begin);
        bool taken = token != NULL;

        if (taken && token->single_word)
            TRY(stands_alone(search, begin, search->at, error, &taken));
        if (taken) {
            take_token(search, token, begin, text_out);
            *id_out = token->id;
            return STATUS_OK;
        }
    }
    text_out[0] = search->done < search->n_bytes ? search->done : search->n_bytes;
    text_out[1] = search->n_bytes;
    search->done = search->n_bytes;
    return STATUS_OK;
}
