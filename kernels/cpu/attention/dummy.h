/*
 * dummy - a step that measures memory. It makes every byte of the workspace resident that the real step would use.
 * It neither reads nor writes a cache, and its output is zero.
 */
#pragma once

#include "kernels/cpu/attention/attention_call.h"

#define dummy_run REST(dummy_run)

void dummy_run(const struct attention_call *call);
