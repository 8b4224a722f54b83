/*
 * weight_table - finds the tensors of a decoder in the files, by the names, shapes and conditions of tensor_names.c.
 *
 * Thread: any; no state.
 */
#pragma once

#include "model/weights/tensor_names.h"
#include "model/weights/weight_binding.h"

/* Sets weights; data points into the mapped files. CORRUPT, UNSUPPORTED: the sentence names the tensor. */
MUST_CHECK enum status weight_table_bind(struct weight_binding *binding, struct error *error);

/* What names of a decoder's tensors may begin with: one form after the other. False: there are no more. */
bool weight_table_root(const struct model_config *config, uint32_t form, size_t root_max,
                       char *root_out);
/* Where the rows of a tensor lie in the one of the files; of binding config and layer are read. */
struct tensor_source weight_table_source(const struct weight_binding *binding,
                                         const struct tensor_row *row);

/* Parts of it, for encoder_table.h. place: the struct that the row's offset is in. */
MUST_CHECK enum status weight_table_bind_tensor(struct weight_binding *binding, const char *name,
                                                const struct tensor_row *row, void *place,
                                                struct error *error);
MUST_CHECK enum status weight_table_bind_layer(struct weight_binding *binding, uint32_t layer,
                                               struct error *error);
