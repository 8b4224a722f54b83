#include "text/constraint/lark_check.h"

#include "text/constraint/schema_check.h"

#include <stdbool.h>
#include <string.h>

struct scan {
    const char *text;
    size_t n_bytes;
    size_t at;
    size_t line;
    struct error *error;
};

static bool is_here(const struct scan *scan, const char *word)
{
    const size_t n = strlen(word);
    return scan->n_bytes - scan->at >= n && memcmp(scan->text + scan->at, word, n) == 0;
}

static void step(struct scan *scan)
{
    scan->line += scan->text[scan->at] == '\n';
    scan->at++;
}

static void skip_comment(struct scan *scan)
{
    while (scan->at < scan->n_bytes && scan->text[scan->at] != '\n')
        scan->at++;
}

/* Past a text in quotes or slashes. */
static void skip_quoted(struct scan *scan)
{
    const char quote = scan->text[scan->at];
    step(scan);
    while (scan->at < scan->n_bytes && scan->text[scan->at] != quote) {
        if (scan->text[scan->at] == '\\' && scan->at + 1 < scan->n_bytes)
            step(scan);
        step(scan);
    }
    if (scan->at < scan->n_bytes)
        step(scan);
}

/* Past an object of JSON, and what is before it. */
static void skip_object(struct scan *scan)
{
    size_t depth = 0;
    while (scan->at < scan->n_bytes) {
        const char byte = scan->text[scan->at];
        if (byte == '"') {
            skip_quoted(scan);
            continue;
        }
        step(scan);
        if (byte == '{')
            depth++;
        else if (byte == '}' && --depth == 0)
            return;
        else if (depth == 0 && !strchr(" \t\r\n", byte))
            return;
    }
}

static enum status check_object(struct scan *scan)
{
    struct error why = {0};
    const size_t line = scan->line;
    const bool is_schema = is_here(scan, "%json");
    while (scan->at < scan->n_bytes && scan->text[scan->at] != '{' && scan->text[scan->at] != '\n')
        scan->at++;
    const size_t begun = scan->at;
    skip_object(scan);
    if (!is_schema)
        return STATUS_OK;
    const enum status status = schema_check(scan->text + begun, scan->at - begun, &why);
    if (status != STATUS_OK)
        return error_set(scan->error, status, "line %zu: %%json: %s", line, why.text);
    return STATUS_OK;
}

/* max_tokens= and stop= */
static enum status check_word(struct scan *scan)
{
    static const char *const WORDS[] = {"max_tokens", "stop"};
    const char *word = scan->text + scan->at;
    const size_t begun = scan->at;
    while (scan->at < scan->n_bytes &&
           (scan->text[scan->at] == '_' || scan->text[scan->at] == '-' ||
            ((scan->text[scan->at] | 0x20) >= 'a' && (scan->text[scan->at] | 0x20) <= 'z')))
        scan->at++;
    const size_t n_word = scan->at - begun;
    size_t next = scan->at;
    while (next < scan->n_bytes && (scan->text[next] == ' ' || scan->text[next] == '\t'))
        next++;
    const bool is_set = next < scan->n_bytes && scan->text[next] == '=';
    for (size_t i = 0; is_set && i < sizeof WORDS / sizeof *WORDS; i++)
        if (n_word == strlen(WORDS[i]) && memcmp(word, WORDS[i], n_word) == 0)
            return error_set(scan->error, STATUS_INVALID_ARGUMENT, "line %zu: %s= cannot be used",
                             scan->line, WORDS[i]);
    return STATUS_OK;
}

enum status lark_check(const char *text, size_t n_bytes, struct error *error)
{
    struct scan scan = {.text = text, .n_bytes = n_bytes, .line = 1, .error = error};
    while (scan.at < n_bytes) {
        const char byte = text[scan.at];
        if (byte == '#' || is_here(&scan, "//"))
            skip_comment(&scan);
        else if (byte == '"' || byte == '/')
            skip_quoted(&scan);
        else if (is_here(&scan, "%json") || is_here(&scan, "%regex") ||
                 is_here(&scan, "%llguidance"))
            TRY(check_object(&scan));
        else if (byte == '<')
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "line %zu: special tokens (<...>) cannot be part of a reply",
                             scan.line);
        else if ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z')
            TRY(check_word(&scan));
        else
            step(&scan);
    }
    return STATUS_OK;
}
