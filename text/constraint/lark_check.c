#include "text/constraint/lark_check.h"

#include "text/constraint/lark_terminals.h"
#include "text/constraint/regex_weight.h"
#include "text/constraint/schema_check.h"

#include <stdbool.h>
#include <string.h>

struct scan {
    const char *text;
    size_t n_bytes;
    size_t at;
    size_t line;
    bool is_line_begun; /* something stands before it in its line */
    bool is_rule;       /* what is being defined: a rule, whose parts are regexes of their own */
    char before;        /* the last byte that is no blank */
    struct lark_terminals terminals;
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

static bool is_name(char byte)
{
    return byte == '_' || byte == '-' || (byte >= '0' && byte <= '9') ||
           ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z');
}

/* Names of terminals have no small letters. */
static bool is_terminal(const char *name, size_t n_name)
{
    for (size_t i = 0; i < n_name; i++)
        if (name[i] >= 'a' && name[i] <= 'z')
            return false;
    return true;
}

/* A name: of a definition, or not. max_tokens= and stop= are refused. */
static enum status check_word(struct scan *scan)
{
    static const char *const WORDS[] = {"max_tokens", "stop"};
    const char *word = scan->text + scan->at;
    const size_t begun = scan->at;
    while (scan->at < scan->n_bytes && is_name(scan->text[scan->at]))
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
    if (!scan->is_line_begun) {
        scan->is_rule = !is_terminal(word, n_word);
        return lark_terminals_define(&scan->terminals, word, n_word, scan->line);
    }
    return scan->is_rule ? STATUS_OK : lark_terminals_refer(&scan->terminals, word, n_word);
}

static bool is_among(char byte, const char *bytes)
{
    return byte && strchr(bytes, byte);
}

/* byte, outside of texts and names, makes what may be empty, or stands at the end of nothing. */
static bool is_counted(char before, char byte)
{
    return is_among(byte, "?*{[") || (is_among(byte, "|)]\n") && is_among(before, "(|[:"));
}

/* A text, or what stands between slashes. */
static void check_quoted(struct scan *scan)
{
    const bool is_regex = scan->text[scan->at] == '/';
    const size_t begun = scan->at + 1;
    skip_quoted(scan);
    const size_t n_bytes = scan->at > begun ? scan->at - begun - 1 : 0;
    lark_terminals_weigh(&scan->terminals,
                         is_regex ? regex_weight(scan->text + begun, n_bytes) : n_bytes == 0);
}

static enum status check_next(struct scan *scan)
{
    const char byte = scan->text[scan->at];
    if (byte == '#' || is_here(scan, "//")) {
        skip_comment(scan);
    } else if (byte == '"' || byte == '/') {
        check_quoted(scan);
    } else if (is_here(scan, "%json") || is_here(scan, "%regex") || is_here(scan, "%llguidance")) {
        return check_object(scan);
    } else if (byte == '<') {
        return error_set(scan->error, STATUS_INVALID_ARGUMENT,
                         "line %zu: special tokens (<...>) cannot be part of a reply", scan->line);
    } else if (byte != '-' && is_name(byte)) {
        return check_word(scan);
    } else {
        step(scan);
        if (!scan->is_rule)
            lark_terminals_weigh(&scan->terminals, is_counted(scan->before, byte));
    }
    return STATUS_OK;
}

enum status lark_check(const char *text, size_t n_bytes, struct error *error)
{
    struct scan scan = {.text = text, .n_bytes = n_bytes, .line = 1, .error = error};
    enum status status = STATUS_OK;
    while (scan.at < n_bytes && status == STATUS_OK) {
        const char byte = text[scan.at];
        status = check_next(&scan);
        if (byte == '\n')
            scan.is_line_begun = false;
        else if (!is_among(byte, " \t\r!?"))
            scan.is_line_begun = true;
        if (!is_among(byte, " \t\r\n"))
            scan.before = byte;
    }
    if (status == STATUS_OK)
        status = lark_terminals_check(&scan.terminals, error);
    lark_terminals_finish(&scan.terminals);
    return status;
}
