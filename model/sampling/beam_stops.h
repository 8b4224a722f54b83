/*
 * beam_stops - whether the text of a beam has just completed a stop string, with the rule of Transformers 5 (StopStringCriteria): it ends
 * within the text of the last token, or with it.
 *
 * A state says how much of each stop string the text ends with, so that nothing but the text of a new token is looked at.
 *
 * Bounds: a byte costs a few operations for each stop string. One allocation, of what the stop strings have twice.
 *
 * Thread: immutable once created, any number of threads may use one.
 */
#pragma once

#include "base/status.h"
#include "sampling_params/stop_texts.h"

#include <stddef.h>

#define BEAM_STOP_NONE UINT32_MAX

struct beam_stops;

/* Of one text, zero at first. */
struct beam_stop_state {
    uint16_t n_matched[STOP_STRINGS_MAX];
};

/* Copies the texts, of which there is one at least. NO_MEMORY. */
MUST_CHECK enum status beam_stops_create(const struct stop_texts *texts,
                                         struct beam_stops **stops_out);
void beam_stops_destroy(struct beam_stops *stops); /* NULL is fine */

/* The text goes on. Returns the index of the stop string that ends first in there, the longest of those that end together; NONE: there
 * is none. After one the state is not to be used any more. */
uint32_t beam_stops_push(const struct beam_stops *stops, struct beam_stop_state *state_inout,
                         const char *text, size_t n_bytes);
