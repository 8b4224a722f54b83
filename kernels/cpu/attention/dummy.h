/*
 * dummy - a step that measures memory: every byte of the workspace that the step would use becomes
 * resident, nothing of a cache is read or written, and the output is zero.
 */
#pragma once

#include "kernels/cpu/attention/attention_call.h"

#define dummy_run REST(dummy_run)

void dummy_run(const struct attention_call *call);
