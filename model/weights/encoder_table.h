/*
 * encoder_table - finds the tensors of an encoder, and those at the ends of a model that has one.
 *
 * Thread: used on one.
 */
#pragma once

#include "base/status.h"
#include "model/weights/weight_binding.h"

/* Nothing, if the model has no encoder. CORRUPT, UNSUPPORTED: as weight_table_bind, which comes before. */
MUST_CHECK enum status encoder_table_bind(struct weight_binding *binding, struct error *error);
