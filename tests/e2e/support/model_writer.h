/*
 * model_writer - writes a small model with random BF16 weights and the tokenizer of the demo model into the test's own folder (command.h).
 *
 * All functions assert (Criterion) on anything unexpected.
 */
#pragma once

#include <stdint.h>

struct model_writer;

/* In in_folder("model"), with the tensors that add_all adds. Returns that path, which the next call of in_folder does not change. */
const char *model_writer_make(const char *config, void (*add_all)(struct model_writer *writer));

/* Numbers around middle; columns 0: a vector. */
void model_writer_add(struct model_writer *writer, const char *name, uint32_t rows,
                      uint32_t columns, float middle, float spread);
/* The same in model.layers.N: numbers that keep the size of what they multiply; those of a norm are around 1. */
void model_writer_add_of_layer(struct model_writer *writer, uint32_t layer, const char *name,
                               uint32_t rows, uint32_t columns);
/* [n_channels][1][width] */
void model_writer_add_conv(struct model_writer *writer, uint32_t layer, const char *name,
                           uint32_t n_channels, uint32_t width);
void model_writer_add_mlp(struct model_writer *writer, uint32_t layer, const char *prefix,
                          uint32_t hidden, uint32_t ffn);
