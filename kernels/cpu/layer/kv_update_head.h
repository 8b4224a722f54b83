/*
 * kv_update_head - writes a head of a new token to its slot of a cache: computed in float32 and rounded once, or
 * copied if its bytes do not change.
 */
#pragma once

#include "kernels/backend/kv_head.h"
#include "kernels/cpu/cpu.h"

#define kv_update_head ISA(kv_update_head)

void kv_update_head(const struct kv_head *head, void *slot_out);
