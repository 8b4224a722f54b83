#include "base/config_value.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct unit {
    const char *suffix;
    uint64_t factor;
};

/* Largest first: printing takes the first that divides. */
static const struct unit SIZE_UNITS[] = {{"T", 1ull << 40}, {"G", 1ull << 30}, {"M", 1ull << 20},
                                         {"K", 1ull << 10}, {"", 1},           {NULL, 0}};
static const struct unit DURATION_UNITS[] = {
    {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}, {NULL, 0}};
static const struct unit NO_UNITS[] = {{"", 1}, {NULL, 0}};

static const struct unit *units_of(enum config_type type)
{
    return type == CONFIG_SIZE          ? SIZE_UNITS
           : type == CONFIG_DURATION_MS ? DURATION_UNITS
                                        : NO_UNITS;
}

static void *member_of(const struct config_row *row, void *values)
{
    return (char *)values + row->offset;
}

/* ---- from text ---- */

static bool parse_bool(const char *text, bool *out)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *out = i % 2;
            return true;
        }
    }
    return false;
}

/* The factor of a suffix, 0 for none that exists. Without one a number counts in the smallest unit;
 * K may be written KiB. */
static uint64_t factor_of(const struct unit *units, const char *suffix)
{
    if (*suffix == '\0')
        return 1;
    size_t length = strlen(suffix);
    if (units == SIZE_UNITS && length == 3 && strcmp(suffix + 1, "iB") == 0)
        length = 1;
    for (; units->suffix; units++)
        if (strlen(units->suffix) == length && strncmp(units->suffix, suffix, length) == 0)
            return units->factor;
    return 0;
}

static bool parse_integer(const char *text, const struct unit *units, uint64_t *out)
{
    uint64_t value = 0;
    const char *p = text;
    for (; isdigit((unsigned char)*p); p++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
            return false;
    uint64_t factor = factor_of(units, p);
    return p != text && factor != 0 && !__builtin_mul_overflow(value, factor, out);
}

static bool parse_f64(const char *text, double *out)
{
    char *end;
    if (*text == '\0' || strspn(text, "0123456789.eE+-") != strlen(text))
        return false;
    *out = strtod(text, &end);
    return *end == '\0' && isfinite(*out);
}

static bool parse_word(const char *words, const char *text, int *out)
{
    size_t length = strlen(text);
    for (int i = 0;; i++) {
        size_t word_length = strcspn(words, "|");
        if (length == word_length && strncmp(words, text, length) == 0) {
            *out = i;
            return true;
        }
        if (words[word_length] == '\0')
            return false;
        words += word_length + 1;
    }
}

static const char *expectation(enum config_type type)
{
    switch (type) {
    case CONFIG_BOOL:
        return "true or false";
    case CONFIG_F64:
        return "a number";
    case CONFIG_SIZE:
        return "a size such as 64M";
    case CONFIG_DURATION_MS:
        return "a duration such as 500ms or 10s";
    default:
        return "a whole number";
    }
}

static enum status malformed(const struct config_row *row, const char *text, const char *where,
                             struct error *error)
{
    return error_set(error, STATUS_INVALID_ARGUMENT, "%s: \"%.60s\" is not %s", where, text,
                     expectation(row->type));
}

static void format_integer(const struct config_row *row, uint64_t value, char *text, size_t bytes)
{
    const struct unit *unit = units_of(row->type);
    while (unit->factor > 1 && (value == 0 || value % unit->factor != 0))
        unit++;
    snprintf(text, bytes, "%" PRIu64 "%s", value / unit->factor, unit->suffix);
}

static bool is_integer(enum config_type type)
{
    return type == CONFIG_U32 || type == CONFIG_U64 || type == CONFIG_SIZE ||
           type == CONFIG_DURATION_MS;
}

static uint64_t integer_max(const struct config_row *row)
{
    return row->type == CONFIG_U32 && row->max > UINT32_MAX ? UINT32_MAX : row->max;
}

bool config_value_range(const struct config_row *row, char *text_out, size_t text_bytes)
{
    char low[40], high[40];
    if (row->type == CONFIG_F64)
        snprintf(text_out, text_bytes, "%g .. %g", row->f64_min, row->f64_max);
    if (!is_integer(row->type))
        return row->type == CONFIG_F64;
    format_integer(row, row->min, low, sizeof low);
    format_integer(row, integer_max(row), high, sizeof high);
    if (integer_max(row) < CONFIG_NO_MAX)
        snprintf(text_out, text_bytes, "%s .. %s", low, high);
    else
        snprintf(text_out, text_bytes, "%s or more", low);
    return integer_max(row) < CONFIG_NO_MAX || row->min > 0;
}

static enum status parse_ranged(const struct config_row *row, const char *text, uint64_t *out,
                                const char *where, struct error *error)
{
    uint64_t max = integer_max(row);
    if (!parse_integer(text, units_of(row->type), out))
        return malformed(row, text, where, error);
    if (*out >= row->min && *out <= max)
        return STATUS_OK;

    char low[40], high[40];
    format_integer(row, row->min, low, sizeof low);
    format_integer(row, max, high, sizeof high);
    return error_set(error, STATUS_INVALID_ARGUMENT, "%s: %.60s is not between %s and %s", where,
                     text, low, high);
}

static enum status parse_number(const struct config_row *row, const char *text, void *member,
                                const char *where, struct error *error)
{
    uint64_t value = 0;
    TRY(parse_ranged(row, text, &value, where, error));
    if (row->type == CONFIG_U32)
        *(uint32_t *)member = (uint32_t)value;
    else
        *(uint64_t *)member = value;
    return STATUS_OK;
}

static enum status parse_real(const struct config_row *row, const char *text, double *member,
                              const char *where, struct error *error)
{
    double value;
    if (!parse_f64(text, &value))
        return malformed(row, text, where, error);
    if (value < row->f64_min || value > row->f64_max)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s: %.60s is not between %g and %g",
                         where, text, row->f64_min, row->f64_max);
    *member = value;
    return STATUS_OK;
}

enum status config_value_parse(const struct config_row *row, const char *text, void *values,
                               const char *where, struct error *error)
{
    assert(row->type <= CONFIG_WORD);
    void *member = member_of(row, values);
    switch (row->type) {
    case CONFIG_BOOL:
        return parse_bool(text, member) ? STATUS_OK : malformed(row, text, where, error);
    case CONFIG_U32:
    case CONFIG_U64:
    case CONFIG_SIZE:
    case CONFIG_DURATION_MS:
        return parse_number(row, text, member, where, error);
    case CONFIG_F64:
        return parse_real(row, text, member, where, error);
    case CONFIG_STRING:
    case CONFIG_SECRET:
        *(const char **)member = text;
        return STATUS_OK;
    case CONFIG_WORD:
        if (parse_word(row->words, text, member))
            return STATUS_OK;
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s: \"%.60s\" is none of %s", where, text,
                         row->words);
    }
    return STATUS_BUG;
}

/* ---- to text ---- */

static void print_quoted(const char *text, FILE *out)
{
    fputc('"', out);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            fprintf(out, "\\x%02x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

static void print_word(const char *words, int index, FILE *out)
{
    while (index-- > 0)
        words += strcspn(words, "|") + 1;
    fprintf(out, "%.*s", (int)strcspn(words, "|"), words);
}

/* The shortest that reads back as the same number. */
static void print_f64(double value, FILE *out)
{
    char text[40];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    fputs(text, out);
}

void config_value_print(const struct config_row *row, const void *values, FILE *out)
{
    const void *member = member_of(row, (void *)values);
    char text[40];
    switch (row->type) {
    case CONFIG_BOOL:
        fputs(*(const bool *)member ? "true" : "false", out);
        return;
    case CONFIG_U32:
        fprintf(out, "%" PRIu32, *(const uint32_t *)member);
        return;
    case CONFIG_U64:
    case CONFIG_SIZE:
    case CONFIG_DURATION_MS:
        format_integer(row, *(const uint64_t *)member, text, sizeof text);
        fputs(text, out);
        return;
    case CONFIG_F64:
        print_f64(*(const double *)member, out);
        return;
    case CONFIG_STRING:
        print_quoted(*(const char *const *)member, out);
        return;
    case CONFIG_SECRET:
        fputs(**(const char *const *)member ? "\"***\"" : "\"\"", out);
        return;
    case CONFIG_WORD:
        print_word(row->words, *(const int *)member, out);
        return;
    }
}
