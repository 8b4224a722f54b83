/*
 * gpu_bench - speed of the CUDA back end's kernels, section by section.
 *
 *     gpu_bench DEVICE [--toy] [--only TEXT] [copy|prefill|decode|products ...]     none named: all
 *
 * --toy: smallest sizes, once, for a device whose times mean nothing. --only: figures with TEXT in their names: for a profiler.
 */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/launch.h"
#include "tests/gpu/gpu_sections.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The limit of everything that is bound by memory: rows gathered one by one. */
struct copying {
    struct embedding gather;
};

static void enqueue_copy(void *arg, uint32_t run)
{
    (void)run;
    cuda_kernels.embedding(NULL, &((struct copying *)arg)->gather);
}

void gpu_copy(struct gpu *gpu)
{
    static const char name[] = "rows of 16 KiB, read and written";
    const uint32_t n_rows = gpu->is_toy ? 16 : 1u << 17, n = gpu->is_toy ? 64 : 1u << 12;
    if (!gpu_measures(gpu, name))
        return;
    struct device_memory table = gpu_random(gpu, DTYPE_F32, (uint64_t)n_rows * n);
    struct device_memory rows = gpu_random(gpu, DTYPE_F32, (uint64_t)n_rows * n);
    struct device_memory ids;
    must(device_allocate(gpu->device, DEVICE_WORKSPACE, n_rows * sizeof(uint32_t), &ids), NULL,
         "allocate");
    uint32_t *order = malloc(n_rows * sizeof *order);
    assert(order);
    for (uint32_t i = 0; i < n_rows; i++)
        order[i] = i;
    gpu_write(gpu, ids.base, order, n_rows * sizeof *order);
    free(order);
    struct copying copying = {{.table = table.base,
                               .dtype = DTYPE_F32,
                               .ids = (const uint32_t *)(const void *)ids.base,
                               .y = rows.base,
                               .y_stride = n,
                               .n_tokens = n_rows,
                               .n = n,
                               .n_rows = n_rows}};
    double us = gpu_time_us(gpu, enqueue_copy, &copying);
    printf("{\"section\": \"copy\", \"name\": \"%s\", \"us\": %.2f, "
           "\"gbs\": %.6g}\n",
           name, us, 2.0 * n_rows * n * sizeof(float) / us / 1e3);
    device_free(gpu->device, &table);
    device_free(gpu->device, &rows);
    device_free(gpu->device, &ids);
}

static const struct section {
    const char *name;
    void (*run)(struct gpu *gpu);
} sections[] = {{"copy", gpu_copy},
                {"prefill", gpu_prefill},
                {"decode", gpu_decode},
                {"products", gpu_products}};
enum { SECTIONS = sizeof sections / sizeof *sections };

static bool is_wanted(const char *name, int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return argc == 0;
}

int main(int argc, char **argv)
{
    struct gpu gpu;
    const char *only = NULL;
    if (argc < 2) {
        fprintf(stderr, "usage: gpu_bench DEVICE [--toy] [--only TEXT] "
                        "[copy|prefill|decode|products ...]\n");
        return 2;
    }
    bool is_toy = argc > 2 && strcmp(argv[2], "--toy") == 0;
    int first = is_toy ? 3 : 2;
    if (argc > first + 1 && strcmp(argv[first], "--only") == 0) {
        only = argv[first + 1];
        first += 2;
    }
    gpu_open(argv[1], is_toy, &gpu);
    gpu_load(&gpu, &cuda_image);
    gpu.only = only;
    for (int i = 0; i < SECTIONS; i++)
        if (is_wanted(sections[i].name, argc - first, argv + first))
            sections[i].run(&gpu);
    gpu_close(&gpu);
    return 0;
}
