#include "text/chat_template.h"

#include "base/json_text.h"
#include "base/regular_file.h"
#include "base/utf8.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_FILE     "tokenizer_config.json"
#define MAP_FILE        "special_tokens_map.json"
#define PROCESSOR_FILE  "chat_template.json"
#define TEMPLATE_FILE   "chat_template.jinja"
#define TEMPLATE_FOLDER "additional_chat_templates"
#define PATH_BYTES      4096

static const char *const NAMES[CHAT_TEMPLATES_MAX] = {"default", "tool_use", "rag"};
static const char *const TOKENS[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                     "pad_token", "cls_token", "mask_token"};

struct reading {
    const char *folder;
    uint64_t bytes_max;
    struct error *error;
    struct chat_template *template;
};

void chat_template_destroy(struct chat_template *template)
{
    if (!template)
        return;
    for (uint32_t i = 0; i < template->n_sources; i++)
        free(template->sources[i].text);
    free(template->tokens);
    free(template);
}

static struct chat_template_source *find(struct chat_template *template, const char *name)
{
    for (uint32_t i = 0; i < template->n_sources; i++)
        if (strcmp(template->sources[i].name, name) == 0)
            return &template->sources[i];
    return NULL;
}

/* Owns the text from now on. where names it in sentences. A later one of the same name counts. */
static enum status take_source(struct reading *reading, unsigned name, char *text, size_t n_bytes,
                               const char *where)
{
    enum status status = STATUS_OK;
    size_t invalid = n_bytes > 0 ? utf8_first_invalid(text, n_bytes) : 0;
    if (n_bytes > reading->bytes_max)
        status = error_set(reading->error, STATUS_UNSUPPORTED,
                           "%s has %zu bytes, at most %llu are read", where, n_bytes,
                           (unsigned long long)reading->bytes_max);
    else if (invalid < n_bytes)
        status = error_set(reading->error, STATUS_CORRUPT, "%s is not UTF-8 at byte %zu", where,
                           invalid);
    if (status != STATUS_OK) {
        free(text);
        return status;
    }
    struct chat_template *template = reading->template;
    struct chat_template_source *source = find(template, NAMES[name]);
    if (source)
        free(source->text);
    else
        source = &template->sources[template->n_sources++];
    *source = (struct chat_template_source){NAMES[name], text, n_bytes};
    snprintf(template->origin, sizeof template->origin, "%s", where);
    return STATUS_OK;
}

/* A file of its own; not there: nothing happens. */
static enum status read_file(struct reading *reading, const char *folder, const char *file,
                             unsigned name)
{
    char *text;
    size_t n_bytes;
    enum status status = regular_file_read_in(folder, file, reading->bytes_max, &text, &n_bytes,
                                              reading->error);
    if (status == STATUS_NOT_FOUND)
        return STATUS_OK;
    return status == STATUS_OK ? take_source(reading, name, text, n_bytes, file) : status;
}

static enum status read_files(struct reading *reading)
{
    char folder[PATH_BYTES], file[64];
    TRY(read_file(reading, reading->folder, TEMPLATE_FILE, 0));
    if (snprintf(folder, sizeof folder, "%s/" TEMPLATE_FOLDER, reading->folder) >=
        (int)sizeof folder)
        return error_set(reading->error, STATUS_INVALID_ARGUMENT, "%.200s: path is too long",
                         reading->folder);
    for (unsigned i = 0; i < CHAT_TEMPLATES_MAX; i++) {
        snprintf(file, sizeof file, "%s.jinja", NAMES[i]);
        TRY(read_file(reading, folder, file, i));
    }
    return STATUS_OK;
}

static enum status read_json(struct reading *reading, const char *file, json_t **root_out)
{
    char *text;
    size_t n_bytes;
    *root_out = NULL;
    enum status status = regular_file_read_in(reading->folder, file, CHAT_CONFIG_BYTES_MAX, &text,
                                              &n_bytes, reading->error);
    if (status == STATUS_NOT_FOUND)
        return STATUS_OK;
    TRY(status);
    json_t *root = NULL;
    status = json_text_parse(text, n_bytes, file, 0, &root, reading->error);
    free(text);
    TRY(status);
    if (!json_is_object(root)) {
        json_decref(root);
        return error_set(reading->error, STATUS_CORRUPT, "%s is no object", file);
    }
    *root_out = root;
    return STATUS_OK;
}

static enum status take_json_text(struct reading *reading, unsigned name, const json_t *value,
                                  const char *where)
{
    size_t n_bytes = json_string_length(value);
    char *text = malloc(n_bytes + 1);
    if (!text)
        return STATUS_NO_MEMORY;
    memcpy(text, json_string_value(value), n_bytes + 1);
    return take_source(reading, name, text, n_bytes, where);
}

/* [{"name": .., "template": ..}, ...]; names that no request chooses are passed over. */
static enum status read_list(struct reading *reading, const char *file, const json_t *list)
{
    char where[128];
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        const json_t *name = json_object_get(entry, "name");
        const json_t *text = json_object_get(entry, "template");
        snprintf(where, sizeof where, "%s: chat_template[%zu]", file, i);
        if (!json_is_string(name) || !json_is_string(text))
            return error_set(reading->error, STATUS_CORRUPT,
                             "%s has no name and template, both texts", where);
        for (unsigned n = 0; n < CHAT_TEMPLATES_MAX; n++)
            if (strcmp(json_string_value(name), NAMES[n]) == 0)
                TRY(take_json_text(reading, n, text, where));
    }
    return STATUS_OK;
}

static enum status read_member(struct reading *reading, const char *file, const json_t *root)
{
    const json_t *value = json_object_get(root, "chat_template");
    char where[128];
    snprintf(where, sizeof where, "%s: chat_template", file);
    if (!value || json_is_null(value))
        return STATUS_OK;
    if (json_is_string(value))
        return take_json_text(reading, 0, value, where);
    if (json_is_array(value))
        return read_list(reading, file, value);
    return error_set(reading->error, STATUS_CORRUPT, "%s is neither a text nor a list", where);
}

static enum status read_operators(struct reading *reading, const char *file)
{
    char *text;
    size_t n_bytes;
    TRY(regular_file_read(file, reading->bytes_max, &text, &n_bytes, reading->error));
    return take_source(reading, 0, text, n_bytes, file);
}

static enum status read_sources(struct reading *reading, const char *file, const json_t *config)
{
    if (file && *file)
        return read_operators(reading, file);
    TRY(read_files(reading));
    if (reading->template->n_sources == 0)
        TRY(read_member(reading, CONFIG_FILE, config));
    if (reading->template->n_sources == 0) {
        json_t *processor;
        TRY(read_json(reading, PROCESSOR_FILE, &processor));
        enum status status = read_member(reading, PROCESSOR_FILE, processor);
        json_decref(processor);
        TRY(status);
    }
    if (reading->template->n_sources == 0)
        return error_set(reading->error, STATUS_NO_CHAT_TEMPLATE,
                         "%.200s has no chat template (" TEMPLATE_FILE
                         ", or chat_template in " CONFIG_FILE ")",
                         reading->folder);
    if (!find(reading->template, NAMES[0]))
        return error_set(reading->error, STATUS_NO_CHAT_TEMPLATE,
                         "%.200s has chat templates, but none is called default", reading->folder);
    return STATUS_OK;
}

/* Its text, borrowed; NULL: it names none. */
static const json_t *token_text(const json_t *root, const char *name)
{
    const json_t *value = json_object_get(root, name);
    if (json_is_object(value))
        value = json_object_get(value, "content");
    return json_is_string(value) ? value : NULL;
}

static enum status read_tokens(struct reading *reading, const json_t *config)
{
    json_t *map = NULL, *tokens = json_object();
    enum status status = tokens ? STATUS_OK : STATUS_NO_MEMORY;
    if (status == STATUS_OK && !json_object_get(config, "added_tokens_decoder"))
        status = read_json(reading, MAP_FILE, &map);
    for (size_t i = 0; status == STATUS_OK && i < sizeof TOKENS / sizeof *TOKENS; i++) {
        const json_t *text = token_text(map, TOKENS[i]);
        text = text ? text : token_text(config, TOKENS[i]);
        if (text && json_object_set(tokens, TOKENS[i], (json_t *)(uintptr_t)text) < 0)
            status = STATUS_NO_MEMORY;
    }
    if (status == STATUS_OK) {
        reading->template->tokens = json_dumps(tokens, JSON_COMPACT);
        status = reading->template->tokens ? STATUS_OK : STATUS_NO_MEMORY;
    }
    json_decref(tokens);
    json_decref(map);
    return status;
}

enum status chat_template_read(const char *folder, const char *file, uint64_t template_bytes_max,
                               struct error *error, struct chat_template **template_out)
{
    assert(folder && template_bytes_max > 0);
    struct reading reading = {.folder = folder,
                              .bytes_max = template_bytes_max,
                              .error = error,
                              .template = calloc(1, sizeof *reading.template)};
    json_t *config = NULL;
    if (!reading.template)
        return STATUS_NO_MEMORY;
    enum status status = read_json(&reading, CONFIG_FILE, &config);
    if (status == STATUS_OK)
        status = read_sources(&reading, file, config);
    if (status == STATUS_OK)
        status = read_tokens(&reading, config);
    json_decref(config);
    if (status != STATUS_OK) {
        chat_template_destroy(reading.template);
        return status;
    }
    *template_out = reading.template;
    return STATUS_OK;
}
