/*
 * sampling - parameters as the inner services take them: what the router makes of a client's.
 */
#pragma once

#include "proto/kvferry/v1/generation.pb-c.h"

/* Greedy, four tokens; every field is there. */
void sampling_complete(Kvferry__V1__SamplingParams *sampling_out);
