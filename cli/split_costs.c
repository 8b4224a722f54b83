#include "cli/split_costs.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Kinds of characters on which patterns may scan far: they count, join or search for the end of a
 * run. */
static const struct run_row {
    const char *name, *character;
} RUNS[] = {
    {"lower case letters", "a"},
    {"capital letters", "A"},
    {"digits", "1"},
    {"spaces", " "},
    {"ends of lines", "\n"},
    {"punctuation", "!"},
    {"Chinese", "\xe4\xb8\xad"},
    {"marks", "\xcc\x81"},
};

#define RUN_BYTES_FIRST ((size_t)1 << 10)

static size_t fill(char *text, size_t bytes, const char *character)
{
    size_t length = strlen(character), n = 0;
    assert(length > 0 && length <= bytes);
    for (; n + length <= bytes; n += length)
        for (size_t i = 0; i < length; i++)
            text[n + i] = character[i];
    return n;
}

/* Doubles the run while it is within the limit. */
static enum status measure(const struct tokenizer *tokenizer, const char *character, char *text,
                           json_t **cost_out)
{
    double steps_per_byte = 0;
    size_t taken = 0;
    enum status status = STATUS_OK;
    for (size_t bytes = RUN_BYTES_FIRST; status == STATUS_OK && bytes <= SPLIT_COSTS_BYTES;
         bytes *= 2) {
        struct error ignored;
        uint64_t steps = 0;
        size_t n = fill(text, bytes, character);
        status = tokenizer_split_steps(tokenizer, text, n, &ignored, &steps);
        assert(n > 0);
        double cost = (double)steps / (double)n;
        steps_per_byte = cost > steps_per_byte ? cost : steps_per_byte;
        taken = status == STATUS_OK ? n : taken;
    }
    if (status != STATUS_OK && status != STATUS_INVALID_ARGUMENT)
        return status;
    *cost_out = json_pack("{s:f, s:I}", "steps_per_byte", steps_per_byte, "run_bytes_max",
                          status == STATUS_OK ? (json_int_t)0 : (json_int_t)taken);
    return *cost_out ? STATUS_OK : STATUS_NO_MEMORY;
}

enum status split_costs_add(json_t *facts, const struct tokenizer *tokenizer)
{
    char *text = malloc(SPLIT_COSTS_BYTES);
    json_t *costs = json_object();
    enum status status = text && costs ? STATUS_OK : STATUS_NO_MEMORY;
    for (size_t i = 0; status == STATUS_OK && i < sizeof RUNS / sizeof *RUNS; i++) {
        json_t *cost;
        status = measure(tokenizer, RUNS[i].character, text, &cost);
        if (status == STATUS_OK)
            json_object_set_new(costs, RUNS[i].name, cost);
    }
    free(text);
    if (status == STATUS_OK)
        json_object_set_new(facts, "split_costs", costs);
    else
        json_decref(costs);
    return status;
}

static double steps_of(const json_t *cost)
{
    return json_number_value(json_object_get(cost, "steps_per_byte"));
}

void split_costs_print(const json_t *facts, FILE *out)
{
    const json_t *costs = json_object_get(facts, "split_costs");
    const char *name, *dearest = "";
    double most = -1;
    json_t *cost;
    json_object_foreach((json_t *)(uintptr_t)costs, name, cost)
    {
        dearest = steps_of(cost) > most ? name : dearest;
        most = steps_of(cost) > most ? steps_of(cost) : most;
    }
    fprintf(out, "split patterns  up to %.1f steps a byte, in a run of %s\n", most, dearest);
    json_object_foreach((json_t *)(uintptr_t)costs, name, cost)
    {
        json_int_t bytes = json_integer_value(json_object_get(cost, "run_bytes_max"));
        if (bytes > 0)
            fprintf(
                out,
                "                look ahead in %s: a text with a run of twice %" JSON_INTEGER_FORMAT
                " bytes is refused\n",
                name, bytes);
    }
}
