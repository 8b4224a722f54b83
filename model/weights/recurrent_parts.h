/*
 * recurrent_parts - which rows of a matrix in the files are a part of it, where its parts come by turns or are those of a layer with
 * recurrent state (enum tensor_part, from PART_HEAD_Q on).
 *
 *     by heads    for each head: head_dim rows of Q, head_dim of its output's gate
 *     in order    all of Q, then K, then V
 *     by groups   for each key head: its Q, its K, and of its value heads V, then Z; or beta, then decay
 *     decay log   all, whatever its form
 *
 * Thread: any; no state.
 */
#pragma once

#include "model/weights/tensor_names.h"

/* Sets first, run, period and n_rows, where they are not those of a whole tensor. False: it is a part of another kind, and nothing is set. */
bool recurrent_part_find(const struct model_config *config, enum tensor_part part,
                         struct tensor_source *source_out);
