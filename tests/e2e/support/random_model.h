/*
 * random_model - writes a folder with a model of random weights and the tokenizer of the demo model, in the test's own folder
 * (command.h).
 *
 * All functions assert (Criterion) on anything unexpected.
 */
#pragma once

#include <stdint.h>

struct random_model;

struct random_model *random_model_create(uint64_t seed);
/* A tensor in BF16, nearly normal around middle. columns 0: a vector. */
void random_model_add(struct random_model *model, const char *name, uint32_t rows, uint32_t columns,
                      float middle, float spread);
/* model.layers.N.name: a matrix whose products keep the size of what they read, or a vector around 1 (norms), or around 0. */
void random_model_add_layer(struct random_model *model, uint32_t layer, const char *name,
                            uint32_t rows, uint32_t columns);
/* Writes in_folder("model"), and is done with the model. Returns that path, which the next call of in_folder does not change. */
const char *random_model_write(struct random_model *model, const char *config);
