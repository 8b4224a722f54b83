/*
 * plain_backend - the example of docs/new-backend.md, compiled and compared with the reference.
 */
#pragma once

#include "kernels/attention.h"

extern const struct attention_backend plain_attention;
