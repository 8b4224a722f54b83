/* tensor_rows - how the tables of tensor_names.h are written: macros for its struct tensor_row. */
#pragma once

#include <stddef.h>

#define LAYER(name, member, rows, columns, condition)                                              \
    {                                                                                              \
        name, offsetof(struct layer_weights, member), rows, columns, condition, PART_ALL           \
    }
#define PART(name, member, rows, columns, condition, part)                                         \
    {                                                                                              \
        name, offsetof(struct layer_weights, member), rows, columns, condition, part               \
    }
#define MODEL(name, member, rows, columns, condition)                                              \
    {                                                                                              \
        name, offsetof(struct weights, member), rows, columns, condition, PART_ALL                 \
    }
#define EXPERT(name, member, rows, columns, part)                                                  \
    {                                                                                              \
        name, offsetof(struct expert_weights, member), rows, columns, ALWAYS, part                 \
    }
