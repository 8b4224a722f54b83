#include "text/constraint/constraint_source.h"

#include "text/constraint/gbnf.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ESCAPED_BYTES_MAX 2 /* of one byte of a choice */

static const char ANY_OBJECT[] = "{\"type\":\"object\"}";

static char *copy_text(const char *bytes, size_t n_bytes)
{
    char *text = malloc(n_bytes + 1);
    if (!text)
        return NULL;
    memcpy(text, bytes, n_bytes);
    text[n_bytes] = 0;
    return text;
}

/* Not < and >: with a backslash they mean where a word begins and ends. */
static size_t write_escaped(const struct constraint_bytes *choice, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < choice->n_bytes; i++) {
        if (strchr("\\.+*?()|[]{}^$/#&-~\"' ", choice->bytes[i]))
            out[n++] = '\\';
        out[n++] = choice->bytes[i];
    }
    return n;
}

/* (?:one|two) */
static char *join_choices(const struct constraint_text *text)
{
    size_t n_bytes = 8;
    for (uint32_t i = 0; i < text->n_choices; i++)
        n_bytes += ESCAPED_BYTES_MAX * text->choices[i].n_bytes + 1;
    char *regex = malloc(n_bytes);
    if (!regex)
        return NULL;
    size_t n = (size_t)snprintf(regex, n_bytes, "(?:");
    for (uint32_t i = 0; i < text->n_choices; i++) {
        if (i)
            regex[n++] = '|';
        n += write_escaped(&text->choices[i], regex + n);
    }
    regex[n++] = ')';
    regex[n] = 0;
    return regex;
}

static char *join_texts(const char *one, size_t n_one, const char *two, const char *three)
{
    const size_t n_two = strlen(two), n_three = strlen(three);
    char *text = malloc(n_one + n_two + n_three + 1);
    if (!text)
        return NULL;
    memcpy(text, one, n_one);
    snprintf(text + n_one, n_two + n_three + 1, "%s%s", two, three);
    return text;
}

/* The last character that JSON does not skip; n_bytes > 0, there is one. */
static size_t last_of(const char *json, size_t n_bytes)
{
    while (n_bytes > 1 && strchr(" \t\r\n", json[n_bytes - 1]))
        n_bytes--;
    return n_bytes - 1;
}

/* A schema with a member by which the library knows what blanks there may be. It is the last one: of two, the library has that. */
static char *bound_blanks(const char *schema, size_t n_bytes)
{
    static const char MEMBER[] = "\"x-guidance\":{\"whitespace_pattern\":\"" CONSTRAINT_BLANKS
                                 "\"}}";
    const size_t end = last_of(schema, n_bytes);
    if (schema[end] == 'e') /* true; or false, which nothing meets */
        return end > 0 && schema[end - 1] == 'u' ? join_texts("{", 1, MEMBER, "")
                                                 : copy_text(schema, n_bytes);
    assert(schema[end] == '}' && end > 0 && "it was checked");
    const bool is_empty = schema[last_of(schema, end)] == '{';
    return join_texts(schema, end, is_empty ? "" : ",", MEMBER);
}

enum status constraint_source_init(struct constraint_source *source,
                                   const struct constraint_text *text, struct error *error)
{
    *source = (struct constraint_source){.key_kind = text->kind};
    switch (text->kind) {
    case CONSTRAINT_JSON_OBJECT:
        source->kind = "json_schema";
        source->text = bound_blanks(ANY_OBJECT, sizeof ANY_OBJECT - 1);
        break;
    case CONSTRAINT_JSON_SCHEMA:
        source->kind = "json_schema";
        source->text = bound_blanks(text->text.bytes, text->text.n_bytes);
        break;
    case CONSTRAINT_REGEX:
        source->kind = "regex";
        source->text = copy_text(text->text.bytes, text->text.n_bytes);
        source->is_converted = true;
        break;
    case CONSTRAINT_CHOICE:
        source->kind = "regex";
        source->text = join_choices(text);
        break;
    case CONSTRAINT_GRAMMAR:
        source->kind = "lark";
        source->is_converted = gbnf_is_here(text->text.bytes, text->text.n_bytes);
        if (source->is_converted)
            return gbnf_to_lark(text->text.bytes, text->text.n_bytes, error, &source->text);
        source->text = copy_text(text->text.bytes, text->text.n_bytes);
        break;
    }
    return source->text ? STATUS_OK : STATUS_NO_MEMORY;
}

void constraint_source_finish(struct constraint_source *source)
{
    free(source->text);
}
