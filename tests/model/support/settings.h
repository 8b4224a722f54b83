/* settings - what requests may ask of a sampler, at random: each setting alone and with others. */
#pragma once

#include "base/random.h"
#include "sampling_params/sampling_params.h"

struct sampling_params settings_random(struct random *random, uint32_t vocabulary);
