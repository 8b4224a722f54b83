/* tokenizer_config.json: the names of special tokens, and what of it does not agree with tokenizer.json. */
#include "base/log/log.h"
#include "tokenizer/files/field.h"
#include "tokenizer/tokenizer_parts.h"

#include <stdio.h>
#include <string.h>

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
    bool has = splitter_prepends(&tokenizer->splitter) || tokenizer->normalizer.prepends;
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
        uint32_t id = find_id(tokenizer->model.vocab, text, n_bytes);
        char expected[16];
        snprintf(expected, sizeof expected, "%u", id);
        if (!is_added(tokenizer->model.vocab, id) || strcmp(expected, number) != 0)
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
    struct special_ids *ids = &tokenizer->special_ids;
    const struct vocab *vocab = tokenizer->model.vocab;

    *ids = (struct special_ids){TOKEN_NONE, TOKEN_NONE, TOKEN_NONE, TOKEN_NONE};
    if (!root->value)
        return STATUS_OK;
    TRY(field_need_object(root, error));
    TRY(field_refuse_set(root, "split_special_tokens", error));
    TRY(read_special(vocab, root, "bos_token", error, &ids->bos));
    TRY(read_special(vocab, root, "eos_token", error, &ids->eos));
    TRY(read_special(vocab, root, "pad_token", error, &ids->pad));
    TRY(read_special(vocab, root, "unk_token", error, &ids->unk));
    TRY(check_other_names(vocab, root, error));
    TRY(read_switches(root, tokenizer, error));
    TRY(check_prefix_space(tokenizer, root, error));
    return check_added(tokenizer, root, error);
}
