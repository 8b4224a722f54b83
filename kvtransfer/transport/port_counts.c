#include "kvtransfer/transport/port_counts.h"

#include "kvtransfer/transport/accept_gate.h"

static uint64_t read_count(const _Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

void port_counts_read(const struct port_counts *counts, struct port_figures *figures_out)
{
    struct port_figures figures = {
        .n_unproven = atomic_load_explicit(&counts->n_unproven, memory_order_relaxed),
        .n_proven = atomic_load_explicit(&counts->n_proven, memory_order_relaxed),
        .bad_messages = read_count(&counts->bad_messages),
    };
    for (int i = 0; i < PORT_REFUSALS; i++)
        figures.refused[i] = read_count(&counts->refused[i]);
    figures.refused[PORT_STRANGER] += accept_gate_refused();
    *figures_out = figures;
}
