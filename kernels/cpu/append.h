/*
 * append - a head of a new token into its slot of a cache: computed in float32 and rounded once, or
 * copied where its bytes do not change.
 */
#pragma once

#include "kernels/cpu/cpu.h"
#include "kernels/kv_head.h"

#define append_head ISA(append_head)

void append_head(const struct kv_head *head, void *slot_out);
