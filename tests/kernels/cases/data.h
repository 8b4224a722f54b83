/*
 * data - what a case's runs have in common: its inputs, weights and the layers' configurations.
 *
 * A row depends on the sequence's id, the token and the beam, so that the same rows go to every back
 * end, and to a sequence that runs alone.
 *
 * Thread: read by any after creation.
 */
#pragma once

#include "tests/kernels/cases/case.h"
#include "tests/kernels/support/guarded.h"

struct case_data {
    const struct attention_case *test_case;
    uint32_t q_width, kv_width; /* elements of a row */
    uint32_t n_rows, n_kv_rows;
    uint32_t first_rows[CASE_SEQUENCES_MAX];    /* of q, output and lse */
    uint32_t first_kv_rows[CASE_SEQUENCES_MAX]; /* of k and v */
    char *q, *k, *v;                            /* [rows][width] in the compute dtype */
    double largest_q, largest_k, largest_v;     /* magnitudes as attention sees them, about */
    struct rope *rope;
    struct guarded q_norm, k_norm, bias, sinks, table, buckets; /* .map NULL: none */
    uint32_t layer_windows[CASE_LAYERS_MAX], layer_groups[CASE_LAYERS_MAX], n_groups;
    struct attention_config configs[CASE_LAYERS_MAX]; /* layer_index: 1 + that in its group */
};

/* False with the reason in error: the rope was refused. */
bool case_data_init(const struct attention_case *test_case, struct case_data *data_out,
                    struct error *error);
void case_data_finish(struct case_data *data);

/* Row of token t of a beam of sequence s; rows of a prompt are those of beam 0. */
uint32_t case_data_row(const struct case_data *data, uint32_t s, uint32_t token, uint32_t beam);
