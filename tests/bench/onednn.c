#include "tests/bench/onednn.h"

#ifdef HAS_ONEDNN

#include "tests/bench/machine.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATTERN 0x3c /* 0.01 as F32 or BF16, 60 as INT8: no slow number */

struct matmul {
    dnnl_primitive_t primitive;
    dnnl_stream_t stream;
    dnnl_exec_arg_t args[3];
    dnnl_memory_t weights;
    char *w;
    size_t w_bytes;
    uint32_t n_copies, copy;
};

static void check(dnnl_status_t status)
{
    if (status == dnnl_success)
        return;
    fprintf(stderr, "oneDNN fails with %d\n", (int)status);
    exit(1);
}

static void run_matmul(void *arg)
{
    struct matmul *matmul = arg;
    check(dnnl_memory_set_data_handle(matmul->weights, matmul->w + matmul->copy * matmul->w_bytes));
    check(dnnl_primitive_execute(matmul->primitive, matmul->stream, 3, matmul->args));
    check(dnnl_stream_wait(matmul->stream));
    matmul->copy = (matmul->copy + 1) % matmul->n_copies;
}

static dnnl_memory_desc_t describe(uint32_t rows, uint32_t columns, dnnl_data_type_t type,
                                   dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t desc;
    dnnl_dims_t dims = {rows, columns};
    check(dnnl_memory_desc_init_by_tag(&desc, 2, dims, type, tag));
    return desc;
}

static dnnl_memory_t new_memory(const dnnl_memory_desc_t *desc, dnnl_engine_t engine)
{
    dnnl_memory_t memory;
    void *data;
    check(dnnl_memory_create(&memory, desc, engine, DNNL_MEMORY_ALLOCATE));
    check(dnnl_memory_get_data_handle(memory, &data));
    memset(data, PATTERN, dnnl_memory_desc_get_size(desc));
    return memory;
}

double onednn_seconds(const char *dtype, uint32_t n_tokens, uint32_t n_in, uint32_t n_out,
                      uint32_t n_copies)
{
    static dnnl_engine_t engine;
    dnnl_data_type_t type = strcmp(dtype, "s8") == 0     ? dnnl_s8
                            : strcmp(dtype, "bf16") == 0 ? dnnl_bf16
                                                         : dnnl_f32;
    if (!engine)
        check(dnnl_engine_create(&engine, dnnl_cpu, 0));
    dnnl_memory_desc_t x = describe(n_tokens, n_in, type, dnnl_ab);
    dnnl_memory_desc_t w = describe(n_in, n_out, type, dnnl_format_tag_any);
    dnnl_memory_desc_t y = describe(n_tokens, n_out, dnnl_f32, dnnl_ab);
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t primitive_desc;
    check(dnnl_matmul_desc_init(&desc, &x, &w, NULL, &y));
    if (dnnl_primitive_desc_create(&primitive_desc, &desc, NULL, engine, NULL) != dnnl_success)
        return 0;
    struct matmul matmul = {.n_copies = n_copies};
    const dnnl_memory_desc_t *laid_out = dnnl_primitive_desc_query_md(primitive_desc,
                                                                      dnnl_query_weights_md, 0);
    matmul.w_bytes = dnnl_memory_desc_get_size(laid_out);
    matmul.w = aligned_alloc(64, (n_copies * matmul.w_bytes + 63) / 64 * 64);
    memset(matmul.w, PATTERN, n_copies * matmul.w_bytes);
    check(dnnl_memory_create(&matmul.weights, laid_out, engine, matmul.w));
    check(dnnl_primitive_create(&matmul.primitive, primitive_desc));
    check(dnnl_stream_create(&matmul.stream, engine, dnnl_stream_default_flags));
    matmul.args[0] = (dnnl_exec_arg_t){DNNL_ARG_SRC, new_memory(&x, engine)};
    matmul.args[1] = (dnnl_exec_arg_t){DNNL_ARG_WEIGHTS, matmul.weights};
    matmul.args[2] = (dnnl_exec_arg_t){DNNL_ARG_DST, new_memory(&y, engine)};
    double seconds = best_seconds(run_matmul, &matmul);
    for (int i = 0; i < 3; i++)
        check(dnnl_memory_destroy(matmul.args[i].memory));
    check(dnnl_stream_destroy(matmul.stream));
    check(dnnl_primitive_destroy(matmul.primitive));
    check(dnnl_primitive_desc_destroy(primitive_desc));
    free(matmul.w);
    return seconds;
}

#else

double onednn_seconds(const char *dtype, uint32_t n_tokens, uint32_t n_in, uint32_t n_out,
                      uint32_t n_copies)
{
    (void)dtype, (void)n_tokens, (void)n_in, (void)n_out, (void)n_copies;
    return 0;
}

#endif
