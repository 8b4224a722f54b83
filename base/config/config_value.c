#include "base/config/config_value.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GIGA            1000000000ull
#define TERA            1000000000000ull
#define FRACTION_DIGITS 18 /* digits after the point */

struct unit {
    const char *suffix;
    uint64_t factor;
};

/* Largest first: printing takes the first unit that divides the value, down to factor 1. The units
 * after that are only read. */
static const struct unit SIZE_UNITS[] = {{"T", 1ull << 40},
                                         {"G", 1ull << 30},
                                         {"M", 1ull << 20},
                                         {"K", 1ull << 10},
                                         {"", 1},
                                         {"Ti", 1ull << 40},
                                         {"Gi", 1ull << 30},
                                         {"Mi", 1ull << 20},
                                         {"Ki", 1ull << 10},
                                         {"TiB", 1ull << 40},
                                         {"GiB", 1ull << 30},
                                         {"MiB", 1ull << 20},
                                         {"KiB", 1ull << 10},
                                         {"TB", TERA},
                                         {"GB", GIGA},
                                         {"MB", 1000000},
                                         {"kB", 1000},
                                         {"B", 1},
                                         {NULL, 0}};
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

bool config_value_is_bool(const char *text, bool *out)
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

/* The factor of a suffix; 0: unknown suffix. A number without a suffix is in the smallest unit. */
static uint64_t factor_of(const struct unit *units, const char *suffix)
{
    if (*suffix == '\0')
        return 1;
    for (; units->suffix; units++)
        if (strcmp(units->suffix, suffix) == 0)
            return units->factor;
    return 0;
}

enum reading { READ, READ_MALFORMED, READ_TOO_LARGE, READ_NOT_WHOLE };

static bool add_digit(uint64_t *value, char digit)
{
    return !__builtin_mul_overflow(*value, 10, value) &&
           !__builtin_add_overflow(*value, (uint64_t)(digit - '0'), value);
}

/* "12", "1.5G": digits, with a unit also a point and more digits, and the unit. */
static enum reading parse_integer(const char *text, const struct unit *units, uint64_t *out)
{
    uint64_t whole = 0, fraction = 0, scale = 1, part;
    const char *p = text;
    bool is_large = false;
    for (; isdigit((unsigned char)*p); p++)
        is_large = !add_digit(&whole, *p) || is_large;
    if (p == text)
        return READ_MALFORMED;
    if (*p == '.' && units != NO_UNITS) {
        const char *first = ++p;
        for (; isdigit((unsigned char)*p) && p - first < FRACTION_DIGITS; p++, scale *= 10)
            (void)add_digit(&fraction, *p);
        if (p == first)
            return READ_MALFORMED;
    }
    uint64_t factor = factor_of(units, p);
    if (factor == 0)
        return READ_MALFORMED;
    unsigned __int128 scaled = (unsigned __int128)fraction * factor;
    if (scaled % scale != 0)
        return READ_NOT_WHOLE;
    part = (uint64_t)(scaled / scale);
    is_large = __builtin_mul_overflow(whole, factor, &whole) || is_large;
    is_large = __builtin_add_overflow(whole, part, out) || is_large;
    return is_large ? READ_TOO_LARGE : READ;
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
        return "a size such as 64M or 1.5Gi (powers of 1024) or 64MB (of 1000)";
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
    enum reading reading = parse_integer(text, units_of(row->type), out);
    if (reading == READ_MALFORMED)
        return malformed(row, text, where, error);
    if (reading == READ_NOT_WHOLE)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s: %.60s is not a whole number of %s",
                         where, text, row->type == CONFIG_SIZE ? "bytes" : "milliseconds");
    if (reading == READ && *out >= row->min && *out <= max)
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
    assert(row->type <= CONFIG_WORD); /* config.c reads lists */
    void *member = member_of(row, values);
    switch (row->type) {
    case CONFIG_BOOL:
        return config_value_is_bool(text, member) ? STATUS_OK : malformed(row, text, where, error);
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
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s: \"%.60s\" is not one of %s", where,
                         text, row->words);
    case CONFIG_LIST:
        break;
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

/* The shortest text that reads back as the same number. */
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

static void print_list(const struct config_list *list, FILE *out)
{
    fputc('[', out);
    for (uint32_t i = 0; i < list->n; i++) {
        fputs(i ? ", " : "", out);
        print_quoted(list->texts[i], out);
    }
    fputc(']', out);
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
    case CONFIG_LIST:
        print_list(member, out);
        return;
    }
}
