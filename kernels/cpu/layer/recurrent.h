/*
 * recurrent - the operators of kernels/recurrent.h on the CPU, one copy for each instruction set.
 */
#pragma once

#include "kernels/cpu/cpu.h"
#include "kernels/recurrent.h"

#define cpu_causal_conv REST(cpu_causal_conv)
#define cpu_delta_gate  REST(cpu_delta_gate)
#define cpu_delta_rule  REST(cpu_delta_rule)
#define cpu_gated_norm  REST(cpu_gated_norm)

void cpu_causal_conv(struct thread_pool *pool, const struct causal_conv *conv);
void cpu_delta_gate(struct thread_pool *pool, const struct delta_gate *gate);
void cpu_delta_rule(struct thread_pool *pool, const struct delta_rule *rule);
void cpu_gated_norm(struct thread_pool *pool, const struct gated_norm *norm);
