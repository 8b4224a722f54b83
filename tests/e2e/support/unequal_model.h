/*
 * unequal_model - a small Gemma 4 with random weights: two of six layers see all tokens and have heads twice as long, the others a
 * window; the last two read K and V of the third and fourth. Vocabulary and tokenizer are those of the demo model.
 *
 * All functions assert (Criterion) on anything unexpected.
 */
#pragma once

#define UNEQUAL_MODEL_WINDOW 48

/* As model_writer_make. */
const char *unequal_model_make(void);
/* With four experts beside the MLP of each layer, of which a token has two. */
const char *unequal_model_make_with_experts(void);
