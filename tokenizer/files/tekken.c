#include "tokenizer/files/tekken.h"

#include "base/base64.h"
#include "tokenizer/files/byte_alphabet.h"
#include "tokenizer/files/document.h"
#include "tokenizer/files/field.h"
#include "tokenizer/files/scored_merges.h"
#include "tokenizer/tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of files that name none, by id (mistral-common, versions up to v7). */
static const char *const NAMES_OF_OLD[] = {
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
};
#define N_OF_OLD (sizeof NAMES_OF_OLD / sizeof *NAMES_OF_OLD)

struct tekken {
    struct field root, vocab;
    struct error *error;
    uint32_t n_special, n_tokens; /* of vocab, as many as are used */
    const char *pattern;
    char *texts; /* of the tokens, one behind the other, in characters of the byte alphabet */
    struct scored_token *tokens; /* [n_tokens] */
};

static enum status read_settings(struct tekken *tekken)
{
    struct field config = field_member(&tekken->root, "config");
    struct field pattern = field_member(&config, "pattern");
    struct field vocab_size = field_member(&config, "default_vocab_size");
    struct field n_special = field_member(&config, "default_num_special_tokens");
    uint32_t n_ids;

    TRY(field_need_object(&config, tekken->error));
    TRY(field_text(&pattern, tekken->error, &tekken->pattern, NULL));
    TRY(field_id(&vocab_size, tekken->error, &n_ids));
    TRY(field_id(&n_special, tekken->error, &tekken->n_special));
    TRY(field_need_array(&tekken->vocab, tekken->error));
    tekken->n_tokens = n_ids - tekken->n_special;
    if (n_ids > tekken->n_special && tekken->n_tokens <= field_length(&tekken->vocab))
        return STATUS_OK;
    return error_set(tekken->error, STATUS_CORRUPT,
                     "%s.default_vocab_size is %u, with %u special tokens and %zu others",
                     config.path, n_ids, tekken->n_special, field_length(&tekken->vocab));
}

/* One token: its bytes as characters of the alphabet, behind those before it. */
static enum status read_token(struct tekken *tekken, uint32_t rank, size_t *n_texts)
{
    struct field token = field_element(&tekken->vocab, rank);
    struct field rank_field = field_member(&token, "rank");
    struct field bytes_field = field_member(&token, "token_bytes");
    uint8_t bytes[TOKEN_SPELLING_MAX];
    const char *text;
    size_t n_text, n_bytes;
    uint32_t written;

    TRY(field_id(&rank_field, tekken->error, &written));
    if (written != rank)
        return error_set(tekken->error, STATUS_UNSUPPORTED, "%s is %u, it must be %u",
                         rank_field.path, written, rank);
    TRY(field_text(&bytes_field, tekken->error, &text, &n_text));
    if (base64_bytes_max(n_text) > sizeof bytes || !base64_decode(text, n_text, bytes, &n_bytes) ||
        n_bytes == 0 || n_bytes > TOKEN_BYTES_MAX)
        return error_set(tekken->error, STATUS_CORRUPT, "%s is no base64 of 1 to %d bytes",
                         bytes_field.path, TOKEN_BYTES_MAX);
    struct scored_token *made = &tekken->tokens[rank];
    made->text = tekken->texts + *n_texts;
    for (size_t i = 0; i < n_bytes; i++)
        made->n_bytes += byte_alphabet_write(bytes[i], tekken->texts + *n_texts + made->n_bytes);
    made->score = -(double)rank;
    *n_texts += made->n_bytes;
    return STATUS_OK;
}

/* Two bytes of text for each byte, of which base64 needs more than one character. */
static enum status read_tokens(struct tekken *tekken)
{
    size_t n_room = 1, n_texts = 0;

    for (uint32_t i = 0; i < tekken->n_tokens; i++)
        n_room += 2 * base64_bytes_max(json_string_length(
                          json_object_get(json_array_get(tekken->vocab.value, i), "token_bytes")));
    tekken->texts = malloc(n_room);
    tekken->tokens = calloc(tekken->n_tokens, sizeof *tekken->tokens);
    if (!tekken->texts || !tekken->tokens)
        return STATUS_NO_MEMORY;
    for (uint32_t rank = 0; rank < tekken->n_tokens; rank++)
        TRY(read_token(tekken, rank, &n_texts));
    return STATUS_OK;
}

static enum status add_special(json_t *list, uint32_t id, const char *text)
{
    const struct document_token token = {id, text, strlen(text)};
    const int failed = json_array_append_new(list, document_added_token(&token, true));

    return failed ? STATUS_NO_MEMORY : STATUS_OK;
}

static enum status add_named(const struct tekken *tekken, const struct field *names, json_t *list)
{
    for (uint32_t id = 0; id < field_length(names); id++) {
        struct field token = field_element(names, id);
        struct field rank = field_member(&token, "rank");
        struct field text_field = field_member(&token, "token_str");
        const char *text;
        uint32_t written;
        TRY(field_id(&rank, tekken->error, &written));
        TRY(field_text(&text_field, tekken->error, &text, NULL));
        if (written != id)
            return error_set(tekken->error, STATUS_UNSUPPORTED, "%s is %u, it must be %u",
                             rank.path, written, id);
        TRY(add_special(list, id, text));
    }
    return STATUS_OK;
}

/* Those that the file names, or had of old; then the fillers. */
static enum status add_specials(const struct tekken *tekken, json_t *list)
{
    struct field names = field_member(&tekken->root, "special_tokens");
    const bool has_names = !field_is_absent(&names);
    uint32_t n_named = N_OF_OLD;

    if (has_names) {
        TRY(field_need_array(&names, tekken->error));
        n_named = (uint32_t)field_length(&names);
    }
    if (n_named > tekken->n_special)
        return error_set(tekken->error, STATUS_CORRUPT,
                         "%s has %u tokens, but config.default_num_special_tokens is %u",
                         names.path, n_named, tekken->n_special);
    if (has_names)
        TRY(add_named(tekken, &names, list));
    for (uint32_t id = 0; id < n_named && !has_names; id++)
        TRY(add_special(list, id, NAMES_OF_OLD[id]));
    for (uint32_t id = n_named; id < tekken->n_special; id++) {
        char name[32];
        snprintf(name, sizeof name, "<SPECIAL_%u>", id);
        TRY(add_special(list, id, name));
    }
    return STATUS_OK;
}

static enum status fill_model(const struct tekken *tekken, json_t *model)
{
    json_t *vocab = json_object(), *merges = json_array();

    json_object_set_new(model, "type", json_string("BPE"));
    json_object_set_new(model, "ignore_merges", json_true());
    json_object_set_new(model, "vocab", vocab);
    json_object_set_new(model, "merges", merges);
    for (uint32_t rank = 0; rank < tekken->n_tokens; rank++) {
        const struct scored_token *token = &tekken->tokens[rank];
        if (json_object_getn(vocab, token->text, token->n_bytes))
            return error_set(tekken->error, STATUS_CORRUPT, "%s[%u] has the bytes of one before it",
                             tekken->vocab.path, rank);
        if (json_object_setn_new(vocab, token->text, token->n_bytes,
                                 json_integer((json_int_t)rank + tekken->n_special)) != 0)
            return STATUS_NO_MEMORY;
    }
    return scored_merges_add_ranked(tekken->tokens, tekken->n_tokens, merges);
}

/* The token that config names, or else the one of that name; {0}: added has none. */
static struct document_token find_special(const json_t *added, const json_t *config,
                                          const char *name, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(config, name));
    size_t index;
    json_t *token;

    json_array_foreach((json_t *)(uintptr_t)added, index, token)
    {
        const json_t *content = json_object_get(token, "content");
        if (strcmp(json_string_value(content), text ? text : otherwise) == 0)
            return (struct document_token){index, json_string_value(content),
                                           json_string_length(content)};
    }
    return (struct document_token){0};
}

static json_t *complete_config(const json_t *added, const json_t *config)
{
    static const char *const names[][2] = {{"bos_token", "<s>"},
                                           {"eos_token", "</s>"},
                                           {"unk_token", "<unk>"},
                                           {"pad_token", "<pad>"}};
    json_t *made = config ? json_copy((json_t *)(uintptr_t)config) : json_object();

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct document_token token = find_special(added, NULL, "", names[i][1]);
        if (!json_object_get(config, names[i][0]) && token.text)
            json_object_set_new(made, names[i][0], json_stringn(token.text, token.n_bytes));
    }
    return made;
}

static enum status fill(struct tekken *tekken, const json_t *config, json_t *root)
{
    json_t *added = json_array(), *model = json_object(), *stages = json_array();
    const struct document_token none = {0};

    json_object_set_new(root, "version", json_string("1.0"));
    json_object_set_new(root, "added_tokens", added);
    json_object_set_new(root, "model", model);
    json_array_append_new(stages, document_split(tekken->pattern));
    json_array_append_new(stages, document_byte_level(false));
    json_object_set_new(root, "pre_tokenizer", document_sequence("pretokenizers", stages));
    json_object_set_new(root, "decoder", document_byte_level(true));
    if (!added || !model)
        return STATUS_NO_MEMORY;
    TRY(add_specials(tekken, added));
    TRY(fill_model(tekken, model));
    const struct document_token bos = find_special(added, config, "bos_token", "<s>");
    json_object_set_new(root, "post_processor", document_template(&bos, &none));
    return STATUS_OK;
}

enum status tekken_read(const json_t *root, const json_t *config, struct error *error,
                        json_t **tokenizer_out, json_t **config_out)
{
    struct tekken tekken = {.root = field_root("tekken.json", root), .error = error};
    json_t *made = json_object();

    *tokenizer_out = *config_out = NULL;
    tekken.vocab = field_member(&tekken.root, "vocab");
    enum status status = made ? read_settings(&tekken) : STATUS_NO_MEMORY;
    if (status == STATUS_OK)
        status = read_tokens(&tekken);
    if (status == STATUS_OK)
        status = fill(&tekken, config, made);
    if (status == STATUS_OK) {
        *config_out = complete_config(json_object_get(made, "added_tokens"), config);
        *tokenizer_out = json_incref(made);
    }
    json_decref(made);
    free(tekken.texts);
    free(tekken.tokens);
    return status;
}
