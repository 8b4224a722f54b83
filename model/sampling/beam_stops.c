#include "model/sampling/beam_stops.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct stop {
    uint32_t n_bytes;
    char text[STOP_STRING_BYTES_MAX];
    /* Of its first i + 1 bytes: the longest end that is a beginning, too, and shorter. */
    uint16_t borders[STOP_STRING_BYTES_MAX];
};

struct beam_stops {
    uint32_t n;
    struct stop all[];
};

/* How much of it a text ends with that ended with its first n bytes. */
static uint32_t go_on(const struct stop *stop, uint32_t n, char byte)
{
    while (n > 0 && stop->text[n] != byte)
        n = stop->borders[n - 1];
    return stop->text[n] == byte ? n + 1 : n;
}

static void init(struct stop *stop, const char *text, uint32_t n_bytes)
{
    assert(n_bytes >= 1 && n_bytes <= STOP_STRING_BYTES_MAX);
    memcpy(stop->text, text, n_bytes);
    stop->n_bytes = n_bytes;
    stop->borders[0] = 0;
    for (uint32_t i = 1; i < n_bytes; i++)
        stop->borders[i] = (uint16_t)go_on(stop, stop->borders[i - 1], text[i]);
}

enum status beam_stops_create(const struct stop_texts *texts, struct beam_stops **stops_out)
{
    assert(texts->n >= 1 && texts->n <= STOP_STRINGS_MAX);
    struct beam_stops *stops = malloc(sizeof *stops + texts->n * sizeof *stops->all);
    if (!stops)
        return STATUS_NO_MEMORY;
    stops->n = texts->n;
    for (uint32_t i = 0; i < texts->n; i++)
        init(&stops->all[i], texts->texts[i], texts->bytes[i]);
    *stops_out = stops;
    return STATUS_OK;
}

void beam_stops_destroy(struct beam_stops *stops)
{
    free(stops);
}

/* Of those that end with this byte, the longest. */
static uint32_t push_byte(const struct beam_stops *stops, struct beam_stop_state *state_inout,
                          char byte)
{
    uint32_t found = BEAM_STOP_NONE;
    for (uint32_t i = 0; i < stops->n; i++) {
        const struct stop *stop = &stops->all[i];
        const uint32_t n = go_on(stop, state_inout->n_matched[i], byte);
        state_inout->n_matched[i] = (uint16_t)n;
        if (n == stop->n_bytes && (found == BEAM_STOP_NONE || n > stops->all[found].n_bytes))
            found = i;
    }
    return found;
}

uint32_t beam_stops_push(const struct beam_stops *stops, struct beam_stop_state *state_inout,
                         const char *text, size_t n_bytes)
{
    uint32_t found = BEAM_STOP_NONE;
    for (size_t i = 0; i < n_bytes && found == BEAM_STOP_NONE; i++)
        found = push_byte(stops, state_inout, text[i]);
    return found;
}
