/*
 * recurrent - the oracle's operators of kernels/recurrent.h, in float64. A state is rounded to float32 behind each row.
 */
#pragma once

#include "kernels/recurrent.h"

struct thread_pool;

void reference_causal_conv(struct thread_pool *pool, const struct causal_conv *conv);
void reference_delta_gate(struct thread_pool *pool, const struct delta_gate *gate);
void reference_delta_rule(struct thread_pool *pool, const struct delta_rule *rule);
void reference_gated_norm(struct thread_pool *pool, const struct gated_norm *norm);
