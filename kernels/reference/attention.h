/*
 * reference/attention - the oracle's attention back end: every sum in float64, the whole row of
 * scores at once. Only what the cache rounds is rounded.
 */
#pragma once

#include "kernels/attention.h"

extern const struct attention_backend reference_attention;
