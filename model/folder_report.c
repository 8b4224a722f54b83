#include "model/folder_report.h"

#include "base/text.h"
#include "base/utf8.h"
#include "gguf/gguf_file.h"
#include "model/config/config_keys.h"
#include "model/config/families.h"
#include "model/files/mapped_file.h"
#include "model/files/other_format.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_BYTES_MAX (16u << 20)
#define SHOWN_BYTES    512 /* of a key or name with its value */
#define VALUE_MAX      60  /* of a value's text that is shown */
#define COLUMNS_MAX    100
#define INDENT         12

static const char CONFIG[] = "config.json", GENERATION[] = "generation_config.json",
                  TOKENIZER[] = "tokenizer_config.json",
                  SPECIAL_TOKENS[] = "special_tokens_map.json";

/* ---- the keys of one file ---- */

static void add_key(json_t *report, enum key_file file, const char *own_keys, const char *key,
                    json_t *value)
{
    const char *why;
    switch (config_key_judge(file, own_keys, key, value, &why)) {
    case KEY_USED:
        json_object_set(json_object_get(report, "used"), key, value);
        return;
    case KEY_REFUSED:
        json_object_set(json_object_get(report, "refused"), key, value);
        return;
    case KEY_NOT_DONE:
        json_object_set(json_object_get(report, "not_done"), key, value);
        return;
    case KEY_UNKNOWN:
        json_array_append_new(json_object_get(report, "unknown"), json_string(key));
        return;
    case KEY_IGNORED:
        break;
    }
    json_t *ignored = json_object_get(report, "ignored");
    if (!json_object_get(ignored, why))
        json_object_set_new(ignored, why, json_array());
    json_array_append_new(json_object_get(ignored, why), json_string(key));
}

/* The keys that only the family of this config.json has. NULL: no family. */
static const char *own_keys_of(const struct json_fields *fields)
{
    uint32_t family;
    return family_read(fields, &family) == STATUS_OK ? family_at(family)->own_keys : NULL;
}

static void add_keys(json_t *report, enum key_file file, const char *own_keys, const json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
        add_key(report, file, own_keys, key, value);
}

/* Around the text model: what is read there, beside text_config itself. */
static void add_keys_around(json_t *report, const json_t *root)
{
    static const char USED[] = "architectures quantization_config eos_token_id tie_word_embeddings";
    static const char WHY[] = "of the parts around the text model, which are not computed";
    json_t *ignored = json_array(), *value;
    const char *key;
    json_object_foreach((json_t *)(uintptr_t)root, key, value)
    {
        if (config_keys_list(USED, key))
            json_object_set(json_object_get(report, "used"), key, value);
        else if (strcmp(key, "text_config") != 0)
            json_array_append_new(ignored, json_string(key));
    }
    json_object_set_new(json_object_get(report, "ignored"), WHY, ignored);
}

static json_t *report_of_keys(enum key_file file, const json_t *root, const char *own_keys)
{
    struct error ignored = {""};
    const struct json_fields fields = {root, CONFIG, &ignored};
    struct json_fields text = fields;
    json_t *report = json_pack("{s:{}, s:{}, s:{}, s:{}, s:[]}", "used", "ignored", "not_done",
                               "refused", "unknown");
    if (file == KEYS_CONFIG || file == KEYS_CONFIG_ALONE) {
        if (family_text_fields(&fields, &text) != STATUS_OK)
            text = fields;
        own_keys = own_keys_of(&text);
    }
    add_keys(report, file, own_keys, text.object);
    if (text.object != root)
        add_keys_around(report, root);
    return report;
}

/* own_keys: of a file that is not config.json, which says them itself. */
static json_t *report_of_file(const char *folder, const char *name, enum key_file file,
                              const char *own_keys)
{
    struct mapped_file mapped = {0};
    struct error error = {""};
    json_t *root = NULL;
    enum status status = mapped_file_open(folder, name, FILE_BYTES_MAX, &mapped, &error);
    if (status == STATUS_NOT_FOUND)
        return json_null();
    if (status == STATUS_OK)
        status = json_fields_parse((const char *)mapped.data, mapped.bytes, name, &root, &error);
    mapped_file_close(&mapped);
    if (status != STATUS_OK)
        return json_string(error.text);
    json_t *report = report_of_keys(file, root, own_keys);
    json_decref(root);
    return report;
}

/* The keys of generation_config.json that only the family of this folder has. NULL: none, or no family. */
static const char *generation_keys_of(const char *folder)
{
    struct mapped_file mapped = {0};
    struct error ignored = {""};
    json_t *root;
    uint32_t family;
    const char *keys = NULL;
    if (mapped_file_open(folder, CONFIG, FILE_BYTES_MAX, &mapped, &ignored) != STATUS_OK)
        return NULL;
    if (json_fields_parse((const char *)mapped.data, mapped.bytes, CONFIG, &root, &ignored) ==
        STATUS_OK) {
        const struct json_fields fields = {root, CONFIG, &ignored};
        if (family_read(&fields, &family) == STATUS_OK)
            keys = family_at(family)->generation_keys;
        json_decref(root);
    }
    mapped_file_close(&mapped);
    return keys;
}

/* ---- the files of the folder ---- */

static bool is_read(const char *name)
{
    static const char *const READ[] = {CONFIG,           GENERATION,
                                       TOKENIZER,        SPECIAL_TOKENS,
                                       "tokenizer.json", "model.safetensors.index.json"};
    for (size_t i = 0; i < sizeof READ / sizeof *READ; i++)
        if (strcmp(name, READ[i]) == 0)
            return true;
    return text_ends_with(name, ".safetensors"); /* loading decides which ones are used */
}

/* The tokenizer's file, where there is no tokenizer.json. */
static bool is_other_tokenizer(const char *name)
{
    static const char *const NAMES[] = {"tekken.json", "tokenizer.model", "tokenizer.model.v3",
                                        "spiece.model"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcmp(name, NAMES[i]) == 0)
            return true;
    return false;
}

static bool has_file(const char *folder, const char *name)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof path && access(path, F_OK) == 0;
}

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && !is_read(entry->d_name);
}

static enum status list_others(const char *folder, json_t **names_out, struct error *error)
{
    struct dirent **entries;
    if (gguf_is(folder)) { /* all in one */
        *names_out = json_array();
        return STATUS_OK;
    }
    int n = scandir(folder, &entries, is_shown, alphasort);
    if (n < 0)
        return error_set(error, errno_status(errno), "%.120s: %s%s", folder, strerror(errno),
                         errno == ENOTDIR ? other_format_advice(folder) : "");
    json_t *names = json_array();
    const bool has_json = has_file(folder, "tokenizer.json");
    bool has_other = false;
    for (int i = 0; i < n; i++) {
        if (!has_json && !has_other && is_other_tokenizer(entries[i]->d_name)) {
            has_other = true; /* the first of them is read */
            free(entries[i]);
            continue;
        }
        bool is_folder = entries[i]->d_type == DT_DIR;
        char name[sizeof entries[i]->d_name]; /* may have any bytes */
        utf8_clean(entries[i]->d_name, strlen(entries[i]->d_name), name, sizeof name);
        json_array_append_new(names, json_sprintf("%s%s", name, is_folder ? "/" : ""));
        free(entries[i]);
    }
    free(entries);
    *names_out = names;
    return STATUS_OK;
}

enum status folder_report_make(const char *folder, json_t **report_out, struct error *error)
{
    json_t *others = NULL;
    TRY(list_others(folder, &others, error));
    json_t *generation = report_of_file(folder, GENERATION, KEYS_GENERATION,
                                        generation_keys_of(folder));
    enum key_file config = json_is_null(generation) ? KEYS_CONFIG_ALONE : KEYS_CONFIG;
    json_t *report = json_pack(
        "{s:{s:o, s:o, s:o, s:o}, s:o}", "files", CONFIG,
        report_of_file(folder, CONFIG, config, NULL), GENERATION, generation, TOKENIZER,
        report_of_file(folder, TOKENIZER, KEYS_TOKENIZER, NULL), SPECIAL_TOKENS,
        report_of_file(folder, SPECIAL_TOKENS, KEYS_SPECIAL_TOKENS, NULL), "other_files", others);
    if (!report)
        return error_set(error, STATUS_NO_MEMORY, "no memory for a report on %.200s", folder);
    *report_out = report;
    return STATUS_OK;
}

/* ---- for people ---- */

/* Writes words after a heading, in lines of limited length. */
struct lines {
    FILE *out;
    const char *heading; /* NULL once written */
    int column;
};

static void lines_begin(struct lines *lines, FILE *out, const char *heading)
{
    *lines = (struct lines){out, heading, 0};
}

/* Texts from the folder are shown without control characters. */
static void lines_add(struct lines *lines, const char *before, const char *text)
{
    char raw[SHOWN_BYTES], word[SHOWN_BYTES];
    snprintf(raw, sizeof raw, "%s%s", before, text);
    utf8_clean(raw, strlen(raw), word, sizeof word);
    int length = (int)strlen(word);
    if (lines->heading) {
        fprintf(lines->out, "  %-*s", INDENT - 2, lines->heading);
        lines->column = INDENT;
        lines->heading = NULL;
    } else if (lines->column + 2 + length > COLUMNS_MAX) {
        fprintf(lines->out, ",\n%*s", INDENT, "");
        lines->column = INDENT;
    } else {
        fputs(", ", lines->out);
        lines->column += 2;
    }
    fputs(word, lines->out);
    lines->column += length;
}

static void lines_end(struct lines *lines)
{
    if (!lines->heading)
        fputc('\n', lines->out);
}

static void print_values(FILE *out, const char *heading, const json_t *values)
{
    struct lines lines;
    const char *key;
    json_t *value;
    lines_begin(&lines, out, heading);
    json_object_foreach((json_t *)(uintptr_t)values, key, value)
    {
        char word[VALUE_MAX + sizeof " ..."] = " ";
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        size_t n = text ? strlen(text) : 0;
        utf8_clean(text ? text : "?", text ? n : 1, word + 1, VALUE_MAX + 1);
        size_t shown = strlen(word);
        if (n > VALUE_MAX)
            snprintf(word + shown, sizeof word - shown, "...");
        free(text);
        lines_add(&lines, key, word);
    }
    lines_end(&lines);
}

/* why: printed before the first name, or "". */
static void print_names(FILE *out, const char *heading, const char *why, const json_t *names)
{
    struct lines lines;
    size_t i;
    json_t *name;
    lines_begin(&lines, out, heading);
    json_array_foreach((json_t *)(uintptr_t)names, i, name)
    {
        char before[128] = "";
        if (i == 0 && *why)
            snprintf(before, sizeof before, "%s: ", why);
        lines_add(&lines, before, json_string_value(name));
    }
    lines_end(&lines);
}

static void print_file(FILE *out, const char *name, const json_t *file)
{
    const char *why;
    json_t *names;
    const char *heading = "ignored";
    if (json_is_null(file)) {
        fprintf(out, "%s: not there\n", name);
        return;
    }
    if (json_is_string(file)) {
        fprintf(out, "%s\n", json_string_value(file));
        return;
    }
    fprintf(out, "%s\n", name);
    print_values(out, "used", json_object_get(file, "used"));
    json_object_foreach(json_object_get(file, "ignored"), why, names)
    {
        print_names(out, heading, why, names);
        heading = "";
    }
    print_values(out, "not done", json_object_get(file, "not_done"));
    print_values(out, "refused", json_object_get(file, "refused"));
    print_names(out, "unknown", "", json_object_get(file, "unknown"));
}

void folder_report_print(const json_t *report, FILE *out)
{
    const char *name;
    json_t *file;
    json_object_foreach(json_object_get(report, "files"), name, file) print_file(out, name, file);
    const json_t *others = json_object_get(report, "other_files");
    if (json_array_size(others) > 0) {
        fputs("other files\n", out);
        print_names(out, "ignored", "", others);
    }
}
