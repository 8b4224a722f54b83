/*
 * A reader that knows each construct by its first character and copies, rewrites or refuses it. It
 * does not build a tree: nothing that is rewritten depends on more than whether it stands in a class
 * or under (?i:. What is copied but malformed (a range upside down) PCRE2 finds.
 */
#include "tokenizer/pattern/onig_syntax.h"

#include "base/utf8.h"

#include <assert.h>
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define NESTING_MAX 32

/* White_Space, as members of a class. */
#define SPACES "\\x{9}-\\x{d}\\x{85}\\p{Z}"

struct reader {
    const char *at;
    const char *end;
    const char *start;
    const char *where;
    struct error *error;
    char *out;
    size_t n_out;
    size_t out_max;
    unsigned depth;
    bool folds_case[NESTING_MAX]; /* by depth */
    bool is_quantified;           /* the last thing was a quantifier */
    bool is_atom;                 /* the last thing can be quantified */
    bool is_group;                /* it is a group */
    char last_letter;             /* of text that folds case, else 0 */
};

static void put(struct reader *reader, const char *text, size_t n_bytes)
{
    assert(reader->n_out + n_bytes <= reader->out_max);
    memcpy(reader->out + reader->n_out, text, n_bytes);
    reader->n_out += n_bytes;
}

static void put_text(struct reader *reader, const char *text)
{
    put(reader, text, strlen(text));
}

static enum status refuse(const struct reader *reader, const char *what)
{
    return error_set(reader->error, STATUS_UNSUPPORTED, "%s uses %s at byte %zu, %s", reader->where,
                     what, (size_t)(reader->at - reader->start), "which is not supported");
}

static bool starts(const struct reader *reader, const char *text)
{
    size_t length = strlen(text);
    return (size_t)(reader->end - reader->at) >= length && memcmp(reader->at, text, length) == 0;
}

/* \p{Lu} and the like: a general category, which both engines read alike. */
static enum status read_property(struct reader *reader)
{
    static const char *const categories[] = {
        "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",  "Mc",  "Me",       "Mn",       "N", "Nd",
        "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi",  "Po",       "Ps",       "S", "Sc",
        "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs", "Han", "Hiragana", "Katakana",
    };
    const char *name = reader->at + 3;
    const char *brace = memchr(reader->at, '}', (size_t)(reader->end - reader->at));

    if (reader->end - reader->at < 4 || reader->at[2] != '{' || !brace)
        return refuse(reader, "a property without braces");
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++) {
        size_t length = strlen(categories[i]);
        if (length == (size_t)(brace - name) && memcmp(name, categories[i], length) == 0) {
            put(reader, reader->at, (size_t)(brace + 1 - reader->at));
            reader->at = brace + 1;
            return STATUS_OK;
        }
    }
    return refuse(reader, "a property other than a general category");
}

/* \xHH or \x{H..}: one and two digits, or braces. */
static enum status read_hex(struct reader *reader)
{
    const char *at = reader->at + 2;
    bool has_brace = at < reader->end && *at == '{';
    size_t n_digits = 0;

    at += has_brace;
    while (at + n_digits < reader->end && isxdigit((unsigned char)at[n_digits]) && n_digits < 7)
        n_digits++;
    bool closes = at + n_digits < reader->end && at[n_digits] == '}';
    if (has_brace ? n_digits == 0 || n_digits > 6 || !closes : n_digits < 2)
        return refuse(reader, "a malformed \\x");
    put_text(reader, "\\x{");
    put(reader, at, has_brace ? n_digits : 2);
    put_text(reader, "}");
    reader->at = at + (has_brace ? n_digits + 1 : 2);
    return STATUS_OK;
}

static enum status read_escape(struct reader *reader, bool in_class)
{
    char escaped = reader->at + 1 < reader->end ? reader->at[1] : '\0';

    if (escaped == 'p' || escaped == 'P')
        return read_property(reader);
    if (escaped == 'x')
        return read_hex(reader);
    if (escaped == 's') {
        put_text(reader, in_class ? SPACES : "[" SPACES "]");
    } else if (escaped == 'S') {
        if (in_class)
            return refuse(reader, "\\S within a class");
        put_text(reader, "[^" SPACES "]");
    } else if (escaped == 'v') {
        put_text(reader, "\\x{b}"); /* one character to Oniguruma, a class to PCRE2 */
    } else if (escaped && (strchr("dDrntf", escaped) || ispunct((unsigned char)escaped))) {
        put(reader, reader->at, 2);
    } else {
        return refuse(reader, "an escape");
    }
    reader->at += 2;
    return STATUS_OK;
}

/* A class is copied but for \s and \x; nested classes and && are Ruby's alone. */
static enum status read_class(struct reader *reader)
{
    if (reader->folds_case[reader->depth])
        return refuse(reader, "a class without case");
    put(reader, reader->at++, 1);
    if (reader->at < reader->end && *reader->at == '^')
        put(reader, reader->at++, 1);
    if (reader->at < reader->end && *reader->at == ']')
        return refuse(reader, "an empty class");
    while (reader->at < reader->end && *reader->at != ']') {
        if (*reader->at == '[')
            return refuse(reader, "a class within a class");
        if (starts(reader, "&&"))
            return refuse(reader, "an intersection of classes");
        if (*reader->at == '\\')
            TRY(read_escape(reader, true));
        else
            put(reader, reader->at++, 1);
    }
    if (reader->at == reader->end)
        return error_set(reader->error, STATUS_CORRUPT, "%s is not a pattern: a class does not end",
                         reader->where);
    put(reader, reader->at++, 1);
    return STATUS_OK;
}

/* Captures are not needed, so ( becomes (?:. Its case folding is that of the surrounding group. */
static enum status read_group(struct reader *reader)
{
    static const char *const openings[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?i:"};
    bool folds_case = reader->folds_case[reader->depth];
    size_t length = 0;

    for (size_t i = 0; i < sizeof openings / sizeof *openings; i++)
        if (starts(reader, openings[i]))
            length = strlen(openings[i]);
    if (length == 4 && reader->at[2] == 'i')
        folds_case = true;
    if (length == 0 && (starts(reader, "(?") || starts(reader, "(*")))
        return refuse(reader, "a group");
    if (reader->depth + 1 == NESTING_MAX)
        return refuse(reader, "too deep a nesting");
    put(reader, length ? reader->at : "(?:", length ? length : 3);
    reader->at += length ? length : 1;
    reader->folds_case[++reader->depth] = folds_case;
    reader->is_atom = false;
    return STATUS_OK;
}

/* Oniguruma folds pairs such as ss and fi to single characters, PCRE2 does not. */
static bool folds_to_one(char left, char right)
{
    static const char pairs[][3] = {"ff", "fi", "fl", "ss", "st"};

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i][0] == left && pairs[i][1] == right)
            return true;
    return false;
}

static enum status read_literal(struct reader *reader)
{
    uint32_t codepoint;
    size_t length = utf8_read(reader->at, &codepoint);

    if (reader->folds_case[reader->depth]) {
        if (codepoint >= 0x80)
            return refuse(reader, "a character beyond ASCII without case");
        char letter = (char)tolower((int)codepoint);
        if (folds_to_one(reader->last_letter, letter))
            return refuse(reader, "letters without case that fold to one");
        reader->last_letter = letter;
    }
    if (codepoint == 0)
        put_text(reader, "\\x{0}");
    else
        put(reader, reader->at, length);
    reader->at += length;
    return STATUS_OK;
}

/* {n}, {n,}, {n,m}: Oniguruma takes {,m} too, and other braces as text. */
static enum status read_braces(struct reader *reader)
{
    const char *at = reader->at + 1;

    if (at == reader->end || !isdigit((unsigned char)*at))
        return refuse(reader, "a brace that is not a repeat count");
    while (at < reader->end && (isdigit((unsigned char)*at) || *at == ','))
        at++;
    if (at == reader->end || *at != '}')
        return refuse(reader, "a brace that is not a repeat count");
    at++;
    if (at < reader->end && (*at == '+' || *at == '?'))
        return refuse(reader, "a sign after a repeat count");
    put(reader, reader->at, (size_t)(at - reader->at));
    reader->at = at;
    return STATUS_OK;
}

/* a*+ is possessive to both; a** and a{2}+ are not what they seem in Ruby's syntax. */
static enum status read_sign(struct reader *reader)
{
    if (*reader->at == '{')
        return read_braces(reader);
    put(reader, reader->at++, 1);
    if (reader->at < reader->end && (*reader->at == '+' || *reader->at == '?'))
        put(reader, reader->at++, 1);
    return STATUS_OK;
}

/* PCRE2's JIT counts steps at groups alone. So an empty one, which JIT does not see through, follows a repeat of one
 * character: each length of it that is tried is a step. */
static enum status read_quantifier(struct reader *reader)
{
    if (!reader->is_atom || reader->is_quantified)
        return refuse(reader, "a repeat of a repeat or of nothing");
    reader->is_quantified = true;
    const char *sign = reader->at;
    TRY(read_sign(reader));
    size_t n_sign = (size_t)(reader->at - sign);
    bool is_fixed = sign[0] == '{' && !memchr(sign, ',', n_sign);
    bool is_possessive = n_sign == 2 && sign[1] == '+';
    if (!reader->is_group && !is_fixed && !is_possessive)
        put_text(reader, "(?>)");
    return STATUS_OK;
}

static enum status read_one(struct reader *reader)
{
    char letter = *reader->at;

    if (strchr("*+?{", letter) && letter)
        return read_quantifier(reader);
    bool was_text = letter && !strchr("\\[().|", letter);
    if (!was_text)
        reader->last_letter = '\0';
    reader->is_quantified = false;
    reader->is_group = letter == ')';
    reader->is_atom = letter != '|';
    if (letter == '\\' && reader->folds_case[reader->depth])
        return refuse(reader, "an escape without case");
    if (letter == '\\')
        return read_escape(reader, false);
    if (letter == '[')
        return read_class(reader);
    if (letter == '(')
        return read_group(reader);
    if (letter && strchr("^$", letter))
        return refuse(reader, "an anchor");
    if (letter == ')') {
        if (reader->depth == 0)
            return error_set(reader->error, STATUS_CORRUPT,
                             "%s is not a pattern: a ) too many at byte %zu", reader->where,
                             (size_t)(reader->at - reader->start));
        reader->depth--;
    }
    return read_literal(reader);
}

enum status onig_syntax_translate(const char *pattern, size_t n_bytes, const char *where,
                                  struct error *error, char *text_out, size_t *n_text_out)
{
    struct reader reader = {.at = pattern,
                            .start = pattern,
                            .end = pattern + n_bytes,
                            .where = where,
                            .error = error,
                            .out = text_out,
                            .out_max = ONIG_SYNTAX_GROWTH * n_bytes};

    assert(utf8_first_invalid(pattern, n_bytes) == n_bytes);
    while (reader.at < reader.end)
        TRY(read_one(&reader));
    if (reader.depth > 0)
        return error_set(error, STATUS_CORRUPT, "%s is not a pattern: a ( does not end", where);
    *n_text_out = reader.n_out;
    return STATUS_OK;
}
