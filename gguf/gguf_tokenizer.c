#include "gguf/gguf_tokenizer.h"

#include "gguf/gguf_pieces.h"
#include "tokenizer/files/document.h"
#include "tokenizer/files/piece_model.h"
#include "tokenizer/files/scored_merges.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LLAMA3                                                                                     \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"                      \
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define QWEN2                                                                                      \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"                           \
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/* Marks belong to the letters before them. */
#define QWEN35                                                                                     \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"                   \
    " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define TEKKEN                                                                                     \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"   \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|"   \
    "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

#define GPT4O                                                                                      \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"    \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"                                                               \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"    \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"                                                               \
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* The signs that end a piece, of several scripts. */
#define BLOOM                                                                                      \
    " ?[^(\\s|.,!?\xe2\x80\xa6\xe3\x80\x82\xef\xbc\x8c\xe3\x80\x81\xe0\xa5\xa4\xdb\x94\xd8\x8c)]+"

/* Numbers, then Han and kana, then the rest. */
static const char *const DEEPSEEK3[] = {
    "\\p{N}{1,3}",
    "[\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-\xe3\x82\x9f\xe3\x82\xa0-\xe3\x83\xbf]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"
    "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    NULL,
};

/* How texts are split before BPE. pattern NULL, and no patterns: as GPT-2 does. */
static const struct splitting {
    const char *name, *pattern;
    bool is_nfc, splits_digits, ignores_merges, adds_bos;
    const char *const *patterns; /* one after the other, in place of pattern; ends with NULL */
    bool is_falcon; /* signs of punctuation first; then as GPT-2; then numbers, by three digits */
} SPLITTINGS[] = {
    {"llama-bpe", LLAMA3, false, false, true, true, NULL, false},
    {"llama3", LLAMA3, false, false, true, true, NULL, false},
    {"llama-v3", LLAMA3, false, false, true, true, NULL, false},
    {"tekken", TEKKEN, false, false, true, true, NULL, false},
    {"gpt-4o", GPT4O, false, false, false, false, NULL, false},
    {"qwen2", QWEN2, true, false, false, false, NULL, false},
    {"qwen35", QWEN35, true, false, false, false, NULL, false},
    {"deepseek-r1-qwen", QWEN2, true, false, false, false, NULL, false},
    {"stablelm2", QWEN2, true, false, false, false, NULL, false},
    {"smollm", NULL, false, true, false, false, NULL, false},
    {"refact", NULL, false, true, false, false, NULL, false},
    {"starcoder", NULL, false, true, false, false, NULL, false},
    {"command-r", NULL, false, true, false, false, NULL, false},
    {"codeshell", NULL, false, true, false, false, NULL, false},
    {"exaone", NULL, false, true, false, false, NULL, false},
    {"bloom", BLOOM, false, false, false, false, NULL, false},
    {"gpt3-finnish", BLOOM, false, false, false, false, NULL, false},
    {.name = "falcon", .is_falcon = true},
    {.name = "deepseek-v3", .patterns = DEEPSEEK3},
    {"gpt-2", NULL, false, false, false, false, NULL, false},
    {"phi-2", NULL, false, false, false, false, NULL, false},
    {"mpt", NULL, false, false, false, false, NULL, false},
    {"olmo", NULL, false, false, false, false, NULL, false},
    {"jais", NULL, false, false, false, false, NULL, false},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

struct vocabulary {
    const struct gguf_file *file;
    const struct gguf_key *tokens, *types, *scores; /* types, scores NULL: none */
    struct gguf_text *texts;                        /* [n] */
    uint64_t n;
    bool is_spm, has_merges; /* has_merges: is_spm, whose merges do not follow from scores */
    const struct splitting *splitting;   /* not is_spm */
    uint64_t bos, eos, unknown, padding; /* UINT64_MAX: none */
    bool adds_bos, adds_eos, adds_space;
    struct error *error;
};

static enum piece_type type_of(const struct vocabulary *vocabulary, uint64_t id)
{
    return vocabulary->types ? (enum piece_type)(int)gguf_number_at(vocabulary->types, id)
                             : PIECE_NORMAL;
}

static bool is_added(enum piece_type type)
{
    return type == PIECE_UNKNOWN || type == PIECE_CONTROL || type == PIECE_OF_USER;
}

static json_t *text_json(struct gguf_text text)
{
    return json_stringn(text.bytes, text.n);
}

/* ---- reading ---- */

static enum status find_splitting(struct vocabulary *vocabulary)
{
    struct gguf_text name = {NULL, 0};
    TRY(gguf_text(vocabulary->file, "tokenizer.ggml.pre", &name, vocabulary->error));
    for (size_t i = 0; name.bytes && i < COUNT(SPLITTINGS); i++)
        if (gguf_text_is(name, SPLITTINGS[i].name)) {
            vocabulary->splitting = &SPLITTINGS[i];
            vocabulary->adds_bos = SPLITTINGS[i].adds_bos;
            return STATUS_OK;
        }
    if (!name.bytes)
        return error_set(vocabulary->error, STATUS_UNSUPPORTED,
                         "key tokenizer.ggml.pre is missing: how texts are split is not known");
    return error_set(
        vocabulary->error, STATUS_UNSUPPORTED,
        "tokenizer.ggml.pre is \"%.*s\", supported are llama-bpe, tekken, gpt-4o, qwen2, "
        "qwen35, deepseek-r1-qwen, deepseek-v3, stablelm2, smollm, refact, starcoder, command-r, "
        "codeshell, exaone, bloom, gpt3-finnish, falcon, gpt-2, phi-2, mpt, olmo and jais",
        (int)(name.n < 60 ? name.n : 60), name.bytes);
}

static enum status find_kind(struct vocabulary *vocabulary)
{
    struct gguf_text model = {NULL, 0};
    TRY(gguf_text(vocabulary->file, "tokenizer.ggml.model", &model, vocabulary->error));
    if (!model.bytes)
        return error_set(vocabulary->error, STATUS_CORRUPT, "key tokenizer.ggml.model is missing");
    vocabulary->has_merges = gguf_text_is(model, "gemma4");
    vocabulary->is_spm = vocabulary->has_merges || gguf_text_is(model, "llama");
    if (vocabulary->is_spm) {
        vocabulary->adds_bos = true;
        vocabulary->adds_space = !vocabulary->has_merges;
        return STATUS_OK;
    }
    if (gguf_text_is(model, "gpt2"))
        return find_splitting(vocabulary);
    return error_set(vocabulary->error, STATUS_UNSUPPORTED,
                     "tokenizer.ggml.model is \"%.*s\", supported are gpt2, llama, gemma4 and t5",
                     (int)(model.n < 60 ? model.n : 60), model.bytes);
}

static enum status read_arrays(struct vocabulary *vocabulary)
{
    const struct gguf_file *file = vocabulary->file;
    struct error *error = vocabulary->error;
    TRY(gguf_array(file, "tokenizer.ggml.tokens", &vocabulary->tokens, error));
    TRY(gguf_array(file, "tokenizer.ggml.token_type", &vocabulary->types, error));
    TRY(gguf_array(file, "tokenizer.ggml.scores", &vocabulary->scores, error));
    if (!vocabulary->tokens || vocabulary->tokens->kind != GGUF_TEXT)
        return error_set(error, STATUS_CORRUPT,
                         "key tokenizer.ggml.tokens is missing, or no array of texts");
    vocabulary->n = vocabulary->tokens->n;
    const struct gguf_key *const arrays[] = {vocabulary->types, vocabulary->scores};
    for (size_t i = 0; i < COUNT(arrays); i++)
        if (arrays[i] && (arrays[i]->kind == GGUF_TEXT || arrays[i]->n != vocabulary->n))
            return error_set(error, STATUS_CORRUPT,
                             "key %.*s has not a number for each of %" PRIu64 " tokens",
                             (int)arrays[i]->name.n, arrays[i]->name.bytes, vocabulary->n);
    vocabulary->texts = calloc(vocabulary->n + 1, sizeof *vocabulary->texts);
    if (!vocabulary->texts)
        return STATUS_NO_MEMORY;
    const uint8_t *at = vocabulary->tokens->at;
    for (uint64_t i = 0; i < vocabulary->n; i++)
        vocabulary->texts[i] = gguf_next_text(&at);
    return STATUS_OK;
}

static enum status read_ids(struct vocabulary *vocabulary)
{
    const struct {
        const char *key;
        uint64_t *id;
    } IDS[] = {
        {"tokenizer.ggml.bos_token_id", &vocabulary->bos},
        {"tokenizer.ggml.eos_token_id", &vocabulary->eos},
        {"tokenizer.ggml.unknown_token_id", &vocabulary->unknown},
        {"tokenizer.ggml.padding_token_id", &vocabulary->padding},
    };
    for (size_t i = 0; i < COUNT(IDS); i++) {
        *IDS[i].id = UINT64_MAX;
        TRY(gguf_u64(vocabulary->file, IDS[i].key, 0, vocabulary->n - (vocabulary->n > 0),
                     IDS[i].id, vocabulary->error));
    }
    TRY(gguf_bool(vocabulary->file, "tokenizer.ggml.add_bos_token", &vocabulary->adds_bos,
                  vocabulary->error));
    TRY(gguf_bool(vocabulary->file, "tokenizer.ggml.add_eos_token", &vocabulary->adds_eos,
                  vocabulary->error));
    TRY(gguf_bool(vocabulary->file, "tokenizer.ggml.add_space_prefix", &vocabulary->adds_space,
                  vocabulary->error));
    if ((vocabulary->adds_bos && vocabulary->bos == UINT64_MAX) ||
        (vocabulary->adds_eos && vocabulary->eos == UINT64_MAX))
        return error_set(vocabulary->error, STATUS_CORRUPT,
                         "key tokenizer.ggml.%s_token_id is missing, though each text gets it",
                         vocabulary->adds_bos && vocabulary->bos == UINT64_MAX ? "bos" : "eos");
    return STATUS_OK;
}

static enum status read_vocabulary(struct vocabulary *vocabulary)
{
    TRY(find_kind(vocabulary));
    TRY(read_arrays(vocabulary));
    return read_ids(vocabulary);
}

/* ---- tokenizer.json ---- */

/* Whether an id that is named must be one of added_tokens, whatever its type is. */
static bool is_named(const struct vocabulary *vocabulary, uint64_t id)
{
    return id == vocabulary->bos || id == vocabulary->eos || id == vocabulary->unknown ||
           id == vocabulary->padding;
}

static struct document_token token_of(const struct vocabulary *vocabulary, uint64_t id)
{
    return (struct document_token){id, vocabulary->texts[id].bytes, vocabulary->texts[id].n};
}

static json_t *added_tokens(const struct vocabulary *vocabulary)
{
    json_t *list = json_array();
    for (uint64_t id = 0; id < vocabulary->n; id++) {
        const enum piece_type type = type_of(vocabulary, id);
        if (!is_added(type) && !is_named(vocabulary, id))
            continue;
        const struct document_token token = token_of(vocabulary, id);
        json_array_append_new(list, document_added_token(&token, type != PIECE_OF_USER));
    }
    return list;
}

/* A control token of byte-level BPE is no part of the vocabulary: no text may make it but its own name. */
static enum status add_vocab(const struct vocabulary *vocabulary, json_t *vocab)
{
    for (uint64_t id = 0; id < vocabulary->n; id++) {
        const struct gguf_text text = vocabulary->texts[id];
        if (!vocabulary->is_spm && is_added(type_of(vocabulary, id)))
            continue;
        char *name = strndup(text.bytes, text.n);
        if (!name)
            return STATUS_NO_MEMORY;
        const bool is_known = strlen(name) != text.n || json_object_get(vocab, name);
        const bool failed = !is_known &&
                            json_object_set_new(vocab, name, json_integer((json_int_t)id)) != 0;
        free(name);
        if (is_known || failed)
            return error_set(vocabulary->error, STATUS_CORRUPT,
                             "tokenizer.ggml.tokens has token %" PRIu64
                             " twice, with a NUL, or not in UTF-8",
                             id);
    }
    return STATUS_OK;
}

static enum status add_scored_merges(const struct vocabulary *vocabulary, json_t *list)
{
    if (!vocabulary->scores)
        return error_set(vocabulary->error, STATUS_CORRUPT, "key tokenizer.ggml.scores is missing");
    struct scored_token *tokens = calloc(vocabulary->n + 1, sizeof *tokens);
    if (!tokens)
        return STATUS_NO_MEMORY;
    size_t n = 0;
    for (uint64_t id = 0; id < vocabulary->n; id++) {
        const enum piece_type type = type_of(vocabulary, id);
        if (type == PIECE_NORMAL || type == PIECE_OF_USER)
            tokens[n++] = (struct scored_token){vocabulary->texts[id].bytes,
                                                vocabulary->texts[id].n,
                                                gguf_number_at(vocabulary->scores, id)};
    }
    enum status status = scored_merges_add(tokens, n, list);
    free(tokens);
    return status;
}

static enum status add_merges(const struct vocabulary *vocabulary, json_t *list)
{
    const struct gguf_key *merges;
    if (vocabulary->is_spm && !vocabulary->has_merges)
        return add_scored_merges(vocabulary, list);
    TRY(gguf_array(vocabulary->file, "tokenizer.ggml.merges", &merges, vocabulary->error));
    if (!merges || merges->kind != GGUF_TEXT)
        return error_set(vocabulary->error, STATUS_CORRUPT,
                         "key tokenizer.ggml.merges is missing, or no array of texts");
    const uint8_t *at = merges->at;
    for (uint64_t i = 0; i < merges->n; i++)
        if (json_array_append_new(list, text_json(gguf_next_text(&at))) != 0)
            return error_set(vocabulary->error, STATUS_CORRUPT,
                             "tokenizer.ggml.merges has a text that is not UTF-8 at %" PRIu64, i);
    return STATUS_OK;
}

static json_t *pre_tokenizer(const struct vocabulary *vocabulary)
{
    const struct splitting *splitting = vocabulary->splitting;
    if (vocabulary->is_spm)
        return json_null();
    json_t *list = json_array();
    if (splitting->pattern)
        json_array_append_new(list, document_split(splitting->pattern));
    if (splitting->splits_digits)
        json_array_append_new(list,
                              json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", 1));
    if (splitting->is_falcon)
        json_array_append_new(
            list, json_pack("{s:s, s:s}", "type", "Punctuation", "behavior", "Contiguous"));
    for (const char *const *next = splitting->patterns; next && *next; next++)
        json_array_append_new(list, document_split(*next));
    json_array_append_new(list, document_byte_level(!splitting->pattern && !splitting->patterns));
    if (splitting->is_falcon) {
        json_array_append_new(list,
                              json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", 0));
        json_array_append_new(list, document_split("[0-9][0-9][0-9]"));
    }
    return document_sequence("pretokenizers", list);
}

static json_t *normalizer(const struct vocabulary *vocabulary)
{
    if (!vocabulary->is_spm)
        return vocabulary->splitting->is_nfc ? json_pack("{s:s}", "type", "NFC") : json_null();
    return document_sequence("normalizers", document_space_normalizers(vocabulary->adds_space));
}

static json_t *decoder(const struct vocabulary *vocabulary)
{
    return vocabulary->is_spm ? document_space_decoder(vocabulary->adds_space)
                              : document_byte_level(true);
}

static json_t *post_processor(const struct vocabulary *vocabulary)
{
    struct document_token before = {0}, after = {0};
    if (vocabulary->adds_bos)
        before = token_of(vocabulary, vocabulary->bos);
    if (vocabulary->adds_eos)
        after = token_of(vocabulary, vocabulary->eos);
    return document_template(&before, &after);
}

static enum status fill_model(const struct vocabulary *vocabulary, json_t *model)
{
    json_t *vocab = json_object(), *merges = json_array();
    const bool has_unknown = vocabulary->is_spm && vocabulary->unknown != UINT64_MAX;
    json_object_set_new(model, "type", json_string("BPE"));
    json_object_set_new(model, "unk_token",
                        has_unknown ? text_json(vocabulary->texts[vocabulary->unknown])
                                    : json_null());
    json_object_set_new(model, "fuse_unk", json_boolean(vocabulary->is_spm));
    json_object_set_new(model, "byte_fallback", json_boolean(vocabulary->is_spm));
    json_object_set_new(model, "ignore_merges",
                        json_boolean(!vocabulary->is_spm && vocabulary->splitting->ignores_merges));
    json_object_set_new(model, "vocab", vocab);
    json_object_set_new(model, "merges", merges);
    TRY(add_vocab(vocabulary, vocab));
    return add_merges(vocabulary, merges);
}

static enum status fill(const struct vocabulary *vocabulary, json_t *root)
{
    json_t *model = json_object();
    json_object_set_new(root, "version", json_string("1.0"));
    json_object_set_new(root, "added_tokens", added_tokens(vocabulary));
    json_object_set_new(root, "normalizer", normalizer(vocabulary));
    json_object_set_new(root, "pre_tokenizer", pre_tokenizer(vocabulary));
    json_object_set_new(root, "post_processor", post_processor(vocabulary));
    json_object_set_new(root, "decoder", decoder(vocabulary));
    json_object_set_new(root, "model", model);
    return model ? fill_model(vocabulary, model) : STATUS_NO_MEMORY;
}

/* The default one, and those with names. */
static enum status add_templates(const struct gguf_file *file, json_t *root, struct error *error)
{
    static const char KEY[] = "tokenizer.chat_template";
    json_t *list = json_array();
    enum status status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < file->n_keys; i++) {
        const struct gguf_text name = file->keys[i].name;
        const size_t n = sizeof KEY - 1;
        if (name.n < n || memcmp(name.bytes, KEY, n) != 0 || file->keys[i].is_array ||
            file->keys[i].kind != GGUF_TEXT || (name.n > n && name.bytes[n] != '.'))
            continue;
        const uint8_t *at = file->keys[i].at;
        json_t *text = text_json(gguf_next_text(&at));
        if (!text)
            status = error_set(error, STATUS_CORRUPT, "key %.*s is not UTF-8", (int)name.n,
                               name.bytes);
        else
            json_array_append_new(
                list, json_pack("{s:s#, s:o}", "name", name.n > n ? name.bytes + n + 1 : "default",
                                name.n > n ? (int)(name.n - n - 1) : 7, "template", text));
    }
    if (status == STATUS_OK && json_array_size(list) > 0)
        json_object_set(root, "chat_template", list);
    json_decref(list);
    return status;
}

/* Of a tokenizer of pieces. */
static enum status make_config_of_pieces(const struct gguf_file *file, json_t **root_out,
                                         struct error *error)
{
    json_t *root = NULL;
    TRY(gguf_pieces_config_make(file, &root, error));
    enum status status = add_templates(file, root, error);
    if (status == STATUS_OK)
        *root_out = json_incref(root);
    json_decref(root);
    return status;
}

enum status gguf_tokenizer_make(const struct gguf_file *file, json_t **root_out,
                                struct error *error)
{
    struct vocabulary vocabulary = {.file = file, .error = error};
    if (gguf_pieces_are_in(file))
        return gguf_pieces_make(file, root_out, error);
    json_t *root = json_object();
    enum status status = root ? read_vocabulary(&vocabulary) : STATUS_NO_MEMORY;
    if (status == STATUS_OK)
        status = fill(&vocabulary, root);
    free(vocabulary.texts);
    if (status != STATUS_OK) {
        json_decref(root);
        return status;
    }
    *root_out = root;
    return STATUS_OK;
}

/* ---- tokenizer_config.json ---- */

static void name_token(const struct vocabulary *vocabulary, const char *key, uint64_t id,
                       json_t *root)
{
    if (id != UINT64_MAX)
        json_object_set_new(root, key, text_json(vocabulary->texts[id]));
}

enum status gguf_tokenizer_config_make(const struct gguf_file *file, json_t **root_out,
                                       struct error *error)
{
    struct vocabulary vocabulary = {.file = file, .error = error};
    if (gguf_pieces_are_in(file))
        return make_config_of_pieces(file, root_out, error);
    json_t *root = json_object();
    enum status status = root ? read_vocabulary(&vocabulary) : STATUS_NO_MEMORY;
    if (status == STATUS_OK) {
        name_token(&vocabulary, "bos_token", vocabulary.bos, root);
        name_token(&vocabulary, "eos_token", vocabulary.eos, root);
        name_token(&vocabulary, "pad_token", vocabulary.padding, root);
        if (vocabulary.is_spm)
            name_token(&vocabulary, "unk_token", vocabulary.unknown, root);
        status = add_templates(file, root, error);
    }
    free(vocabulary.texts);
    if (status != STATUS_OK) {
        json_decref(root);
        return status;
    }
    *root_out = root;
    return STATUS_OK;
}
