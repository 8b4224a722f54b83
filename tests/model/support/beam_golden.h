/* beam_golden - cases of tests/golden/beams; asserts on failure. */
#pragma once

#include "model/sampling/beam_search.h"

#include <jansson.h>

#define GOLDEN_BEAMS KVFERRY_SOURCE_DIR "/tests/golden/beams"

struct beam_params beam_golden_params(const json_t *entry);
/* The replies are those of entry; scores differ by at most absolute + relative * score. where, case at: for the sentence. */
void beam_golden_compare(const struct beam_search *search, const json_t *entry, double absolute,
                         double relative, const char *where, size_t at);
