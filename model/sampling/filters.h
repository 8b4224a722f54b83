/*
 * filters - what typical_p, epsilon_cutoff and eta_cutoff keep of the tokens that top-k, top-p and min-p keep, in this order.
 *
 *     p         weight / sum of the weights of the tokens that are left;  H: -sum of p log p, the entropy
 *     typical   keeps the fewest tokens with the least |-log p - H| whose p reach typical_p, and those as near as the last
 *               (Meister et al., "Locally Typical Sampling", 2022)
 *     epsilon   keeps p of at least epsilon_cutoff
 *     eta       keeps p of at least min(e, sqrt(e) exp(-H)) with e = eta_cutoff (Hewitt et al., "Truncation Sampling as Language Model
 *               Desmoothing", 2022)
 *     always    the likeliest of the list, and those as likely, stay in the last two
 *
 * As Transformers' warpers of these names, with min_tokens_to_keep 1; these compute in float32, this in double.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "model/sampling/ranks.h"
#include "sampling_params/sampling_params.h"

/* They change something. */
bool filters_are_set(const struct sampling_params *params);

/* Moves what is kept to the front of list, in the order that it has; returns how many: at least 1. The weights of the n > 0 tokens
 * are above 0. room: [n]. */
uint32_t filters_keep(const struct sampling_params *params, struct candidate *list, uint32_t n,
                      struct candidate *room);
