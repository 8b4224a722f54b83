/*
 * Each part reads its own field and has its own sentences; this file has their order, and the
 * fields that belong to no part. Fields that no part knows (version) cannot change a result.
 */
#include "tokenizer/tokenizer_parts.h"

#include "base/log/log.h"
#include "tokenizer/field.h"

#include <stdio.h>
#include <string.h>

static enum status refuse_set(const struct field *object, const char *const *names, size_t n_names,
                              struct error *error)
{
    for (size_t i = 0; i < n_names; i++) {
        struct field field = field_member(object, names[i]);
        bool is_zero = json_is_number(field.value) && !(json_number_value(field.value) > 0.0);
        if (!field_is_blank(&field) && !json_is_false(field.value) && !is_zero)
            return error_set(error, STATUS_UNSUPPORTED, "%s is set, which is not supported",
                             field.path);
    }
    return STATUS_OK;
}

/* A byte that may need the unknown token; TOKEN_NONE when there is none. */
static uint32_t byte_without_token(const struct tokenizer *tokenizer)
{
    const struct vocab *vocab = tokenizer->vocab;

    for (uint32_t byte = 0; byte < 256; byte++) {
        bool has_token = vocab->is_byte_level && vocab->byte_ids[byte] != TOKEN_NONE;
        bool falls_back = tokenizer->byte_fallback && vocab->fallback_ids[byte] != TOKEN_NONE;
        if (!has_token && !falls_back)
            return byte;
    }
    return TOKEN_NONE;
}

/* byte_fallback of a byte-level vocabulary would fall back to the bytes of the alphabet's
 * characters, which the decoder does not take back. */
static enum status read_fallback(struct tokenizer *tokenizer, const struct field *model,
                                 struct error *error)
{
    struct field byte_fallback = field_member(model, "byte_fallback");
    bool wanted = false;

    TRY(field_bool(&byte_fallback, error, &wanted));
    tokenizer->byte_fallback = wanted && !tokenizer->vocab->is_byte_level;
    if (tokenizer->byte_fallback == wanted || byte_without_token(tokenizer) == TOKEN_NONE)
        return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s is true with a byte-level vocabulary that lacks the byte 0x%02x, which is "
                     "not supported",
                     byte_fallback.path, byte_without_token(tokenizer));
}

/* The tokenizers package looks for it in model.vocab alone, and only when a text needs it. */
static enum status read_unknown(struct tokenizer *tokenizer, const struct field *model,
                                struct error *error)
{
    struct field unk_token = field_member(model, "unk_token");
    struct field fuse_unk = field_member(model, "fuse_unk");
    const char *text;
    size_t n_bytes;

    tokenizer->unk_id = TOKEN_NONE;
    TRY(field_bool(&fuse_unk, error, &tokenizer->fuse_unk));
    if (field_is_absent(&unk_token))
        return STATUS_OK;
    TRY(field_text(&unk_token, error, &text, &n_bytes));
    tokenizer->unk_id = vocab_find_text(tokenizer->vocab, text, n_bytes);
    uint32_t byte = byte_without_token(tokenizer);
    if (tokenizer->unk_id != TOKEN_NONE || byte == TOKEN_NONE)
        return STATUS_OK;
    return error_set(
        error, STATUS_CORRUPT,
        "%s is \"%.60s\", which model.vocab does not have, as little as the byte 0x%02x",
        unk_token.path, text, byte);
}

static enum status read_model(struct tokenizer *tokenizer, const struct field *root,
                              struct error *error)
{
    static const char *const unsupported[] = {"dropout", "continuing_subword_prefix",
                                              "end_of_word_suffix"};
    struct field model = field_member(root, "model");
    struct field type_field = field_member(&model, "type");
    struct field vocab = field_member(&model, "vocab");
    struct field merges = field_member(&model, "merges");
    struct field ignore_merges = field_member(&model, "ignore_merges");
    struct field added = field_member(root, "added_tokens");

    TRY(field_need_object(&model, error));
    if (!field_is_absent(&type_field)) { /* files of old leave it out */
        const char *type;
        TRY(field_text(&type_field, error, &type, NULL));
        if (strcmp(type, "BPE") != 0)
            return field_refuse(&type_field, error, type);
    }
    TRY(refuse_set(&model, unsupported, sizeof unsupported / sizeof *unsupported, error));
    TRY(field_bool(&ignore_merges, error, &tokenizer->ignore_merges));
    TRY(vocab_create(&vocab, &added, tokenizer->splitter.has_byte_level, error, &tokenizer->vocab));
    TRY(read_fallback(tokenizer, &model, error));
    TRY(read_unknown(tokenizer, &model, error));
    return merges_init(&tokenizer->merges, &merges, tokenizer->vocab, error);
}

enum status tokenizer_parts_read(struct tokenizer *tokenizer, const struct field *root,
                                 struct error *error)
{
    static const char *const unsupported[] = {"truncation", "padding"};
    struct field normalizer = field_member(root, "normalizer");
    struct field pre_tokenizer = field_member(root, "pre_tokenizer");
    struct field post_processor = field_member(root, "post_processor");
    struct field decoder = field_member(root, "decoder");
    struct field added = field_member(root, "added_tokens");

    TRY(field_need_object(root, error));
    TRY(refuse_set(root, unsupported, sizeof unsupported / sizeof *unsupported, error));
    TRY(normalizer_init(&tokenizer->normalizer, &normalizer, error));
    TRY(splitter_init(&tokenizer->splitter, &pre_tokenizer, error));
    TRY(read_model(tokenizer, root, error));
    TRY(token_texts_init(&tokenizer->texts, &decoder, tokenizer->vocab, error));
    TRY(added_tokens_init(&tokenizer->added, &added, &tokenizer->normalizer, error));
    return template_init(&tokenizer->template, &post_processor, tokenizer->vocab->n_ids, error);
}

/* tokenizer_config.json */

/* The id of the token that the file writes so; model.vocab or added_tokens have it. */
static uint32_t find_id(const struct vocab *vocab, const char *text, size_t n_bytes)
{
    uint32_t id = vocab_find_text(vocab, text, n_bytes);

    return id != TOKEN_NONE ? id : vocab_find_added(vocab, text, n_bytes);
}

static bool is_added(const struct vocab *vocab, uint32_t id)
{
    return id != TOKEN_NONE && (vocab->flags[id] & TOKEN_FLAG_ADDED);
}

/* "<s>", or an object with its content. If it is not an added token, Transformers makes it one, and
 * so splits texts at it. */
static enum status read_name(const struct vocab *vocab, const struct field *field,
                             struct error *error, uint32_t *id_out)
{
    struct field content = field_member(field, "content");
    const char *text;
    size_t n_bytes;

    *id_out = TOKEN_NONE;
    if (field_is_absent(field))
        return STATUS_OK;
    TRY(field_text(json_is_object(field->value) ? &content : field, error, &text, &n_bytes));
    *id_out = find_id(vocab, text, n_bytes);
    if (n_bytes == 0 || is_added(vocab, *id_out))
        return STATUS_OK;
    if (*id_out == TOKEN_NONE)
        return error_set(error, STATUS_CORRUPT,
                         "%s is \"%.60s\", which tokenizer.json does not have", field->path, text);
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s is \"%.60s\", which added_tokens of tokenizer.json does not have",
                     field->path, text);
}

static enum status read_special(const struct vocab *vocab, const struct field *root,
                                const char *name, struct error *error, uint32_t *id_out)
{
    struct field field = field_member(root, name);
    return read_name(vocab, &field, error, id_out);
}

/* A list of names, or an object that has them as values. */
static enum status check_names(const struct vocab *vocab, const struct field *root, const char *key,
                               struct error *error)
{
    struct field names = field_member(root, key);
    uint32_t id;
    const char *name;
    json_t *value;

    for (size_t i = 0; i < field_length(&names); i++) {
        struct field element = field_element(&names, i);
        TRY(read_name(vocab, &element, error, &id));
    }
    json_object_foreach((json_t *)(uintptr_t)names.value, name, value)
        TRY(read_special(vocab, &names, name, error, &id));
    if (field_is_absent(&names) || json_is_array(names.value) || json_is_object(names.value))
        return STATUS_OK;
    return error_set(error, STATUS_CORRUPT, "%s is neither an array nor an object", names.path);
}

static enum status check_other_names(const struct vocab *vocab, const struct field *root,
                                     struct error *error)
{
    static const char *const one[] = {"sep_token", "cls_token", "mask_token"};
    static const char *const many[] = {"additional_special_tokens", "extra_special_tokens",
                                       "model_specific_special_tokens"};
    uint32_t id;

    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        TRY(read_special(vocab, root, one[i], error, &id));
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        TRY(check_names(vocab, root, many[i], error));
    return STATUS_OK;
}

/* The classes of Transformers 4 that replace the template of tokenizer.json. */
static const struct template_class {
    const char *name; /* "Fast" may follow */
    bool add_bos;     /* when the file does not say; no class adds eos then */
} TEMPLATE_CLASSES[] = {
    {"LlamaTokenizer", true},  {"CodeLlamaTokenizer", true}, {"GemmaTokenizer", true},
    {"CohereTokenizer", true}, {"GPTNeoXTokenizer", false},
};

/* NULL: another class, or none is named. */
static const struct template_class *find_template_class(const struct field *root)
{
    struct field field = field_member(root, "tokenizer_class");
    const char *name = json_string_value(field.value);

    for (size_t i = 0; name && i < sizeof TEMPLATE_CLASSES / sizeof *TEMPLATE_CLASSES; i++) {
        size_t length = strlen(TEMPLATE_CLASSES[i].name);
        if (strncmp(name, TEMPLATE_CLASSES[i].name, length) == 0 &&
            (name[length] == '\0' || strcmp(name + length, "Fast") == 0))
            return &TEMPLATE_CLASSES[i];
    }
    return NULL;
}

/* One side of the template as the switch says: the token or nothing. */
static void switch_side(const struct field *root, const char *name, bool is_wanted, uint32_t id,
                        struct template_side *side)
{
    struct field field = field_member(root, name);
    bool has = id != TOKEN_NONE && template_has(side, id);

    if (is_wanted != has)
        log_warn(
            "%s is %s, but post_processor of tokenizer.json %s that token: what the switch says "
            "is done, as the tokenizer's class does in Transformers 4",
            field.path, is_wanted ? "true" : "false", has ? "adds" : "does not add");
    *side = (struct template_side){.n_ids = is_wanted};
    side->ids[0] = is_wanted ? id : 0;
}

/*
 * add_bos_token and add_eos_token are Transformers 4's; 5 neither writes nor reads them. They are applied for
 * the classes that did so there, even if tokenizer.json differs. For all other classes the post_processor
 * decides in every version.
 */
static enum status read_switches(const struct field *root, struct tokenizer *tokenizer,
                                 struct error *error)
{
    struct field bos = field_member(root, "add_bos_token");
    struct field eos = field_member(root, "add_eos_token");
    const struct special_ids *ids = &tokenizer->special_ids;
    const struct template_class *class = find_template_class(root);
    bool add_bos = class && class->add_bos;
    bool add_eos = false;

    TRY(field_bool(&bos, error, &add_bos));
    TRY(field_bool(&eos, error, &add_eos));
    if (!class || (field_is_absent(&bos) && field_is_absent(&eos)))
        return STATUS_OK;
    if ((add_bos && ids->bos == TOKEN_NONE) || (add_eos && ids->eos == TOKEN_NONE))
        return error_set(error, STATUS_CORRUPT, "%s is true, but no %s is named",
                         add_bos && ids->bos == TOKEN_NONE ? bos.path : eos.path,
                         add_bos && ids->bos == TOKEN_NONE ? "bos_token" : "eos_token");
    switch_side(root, "add_bos_token", add_bos, ids->bos, &tokenizer->template.before);
    switch_side(root, "add_eos_token", add_eos, ids->eos, &tokenizer->template.after);
    return STATUS_OK;
}

static enum status check_prefix_space(const struct tokenizer *tokenizer, const struct field *root,
                                      struct error *error)
{
    struct field field = field_member(root, "add_prefix_space");
    bool has = splitter_prepends(&tokenizer->splitter) ||
               normalizer_prepends(&tokenizer->normalizer);
    bool wanted = has;

    TRY(field_bool(&field, error, &wanted));
    if (wanted == has)
        return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s is %s, but normalizer and pre_tokenizer of tokenizer.json say otherwise",
                     field.path, wanted ? "true" : "false");
}

/* Transformers would add tokens that only this list has. */
static enum status check_added(const struct tokenizer *tokenizer, const struct field *root,
                               struct error *error)
{
    struct field list = field_member(root, "added_tokens_decoder");
    const char *number;
    json_t *value;

    if (field_is_absent(&list))
        return STATUS_OK;
    TRY(field_need_object(&list, error));
    json_object_foreach((json_t *)(uintptr_t)list.value, number, value)
    {
        struct field token = field_member(&list, number);
        struct field content = field_member(&token, "content");
        const char *text;
        size_t n_bytes;
        TRY(field_text(&content, error, &text, &n_bytes));
        uint32_t id = find_id(tokenizer->vocab, text, n_bytes);
        char expected[16];
        snprintf(expected, sizeof expected, "%u", id);
        if (!is_added(tokenizer->vocab, id) || strcmp(expected, number) != 0)
            return error_set(error, STATUS_UNSUPPORTED,
                             "%s is \"%.60s\", which added_tokens of tokenizer.json does not have "
                             "as id %.12s",
                             token.path, text, number);
    }
    return STATUS_OK;
}

enum status tokenizer_config_read(struct tokenizer *tokenizer, const struct field *root,
                                  struct error *error)
{
    static const char *const unsupported[] = {"split_special_tokens"};
    struct special_ids *ids = &tokenizer->special_ids;
    const struct vocab *vocab = tokenizer->vocab;

    *ids = (struct special_ids){TOKEN_NONE, TOKEN_NONE, TOKEN_NONE, TOKEN_NONE};
    if (!root->value)
        return STATUS_OK;
    TRY(field_need_object(root, error));
    TRY(refuse_set(root, unsupported, 1, error));
    TRY(read_special(vocab, root, "bos_token", error, &ids->bos));
    TRY(read_special(vocab, root, "eos_token", error, &ids->eos));
    TRY(read_special(vocab, root, "pad_token", error, &ids->pad));
    TRY(read_special(vocab, root, "unk_token", error, &ids->unk));
    TRY(check_other_names(vocab, root, error));
    TRY(read_switches(root, tokenizer, error));
    TRY(check_prefix_space(tokenizer, root, error));
    return check_added(tokenizer, root, error);
}
