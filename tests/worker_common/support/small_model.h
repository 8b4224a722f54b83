/*
 * small_model - a folder with the smallest Llama, whose weights have a given type and are zeros.
 *
 * No global state but the folder.
 */
#pragma once

#define SMALL_MODEL_HIDDEN   64
#define SMALL_MODEL_HEAD_DIM 32

/* dtype: as safetensors write it, "BF16". The text lives until small_model_remove. */
const char *small_model_make(const char *dtype);
void small_model_remove(const char *folder);
