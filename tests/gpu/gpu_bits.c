/*
 * gpu_bits - whether bits of a row depend on the row alone (kernels/cuda/README.md, rule 5), on a device.
 *
 *     gpu_bits DEVICE [--toy] [--plant RUN] [CHECK...]     none named: all
 *
 * --toy: small shapes, and few cases of attention where none is named. --plant: a bit of every run with RUN in its name is
 * changed behind the device, to see that it is found. A line of JSON a check; exit status 3: one of them failed.
 */
#include "tests/gpu/gpu_bits.h"

#include "kernels/cuda/launch.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool bits_is_wanted(const struct bits *bits, const char *name)
{
    for (int i = 0; i < bits->n_names; i++)
        if (strcmp(bits->names[i], name) == 0)
            return true;
    return bits->n_names == 0;
}

struct bits_check bits_begin(struct bits *bits, const char *name)
{
    struct bits_check check = {.bits = bits};
    snprintf(check.name, sizeof check.name, "%s", name);
    return check;
}

void bits_differ(struct bits_check *check, const char *format, ...)
{
    va_list arguments;
    if (check->n_failed++ > 0)
        return;
    va_start(arguments, format);
    vsnprintf(check->first, sizeof check->first, format, arguments);
    va_end(arguments);
}

void bits_end(struct bits_check *check)
{
    const bool is_right = check->n_failed == 0 && check->n_compared > 0;
    printf("{\"section\": \"bits\", \"name\": \"%s\", \"verdict\": \"%s\", \"runs\": %u, "
           "\"compared\": %llu, \"failed\": %u",
           check->name, is_right ? "ok" : "WRONG", check->n_runs,
           (unsigned long long)check->n_compared, check->n_failed);
    if (check->has_reference)
        printf(", \"of_allowed\": %.3g", check->of_allowed);
    if (!is_right)
        printf(", \"first\": \"%s\"", check->first);
    printf("}\n");
    fflush(stdout);
    check->bits->n_checks++;
    check->bits->n_failed += !is_right;
}

bool bits_is_planted(const struct bits *bits, const char *run)
{
    return bits->plant && strstr(run, bits->plant);
}

float bits_number(uint64_t row, uint32_t index)
{
    uint64_t x = (row << 32 | index) + 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    return (float)(int32_t)(x >> 40) * 0x1p-23f - 1;
}

struct bits_hex bits_hex(const void *element, size_t bytes)
{
    struct bits_hex hex;
    uint32_t value = 0;
    memcpy(&value, element, bytes);
    snprintf(hex.text, sizeof hex.text, "%0*x", (int)bytes * 2, value);
    return hex;
}

void *bits_zeroed(size_t n, size_t bytes)
{
    void *made = calloc(n, bytes);
    assert(made);
    return made;
}

struct device_memory bits_memory(struct bits *bits, const void *source, size_t bytes)
{
    struct device_memory memory;
    must(device_allocate(bits->gpu.device, DEVICE_WORKSPACE, bytes, &memory), NULL, "allocate");
    gpu_write(&bits->gpu, memory.base, source, bytes);
    return memory;
}

int main(int argc, char **argv)
{
    struct bits bits = {0};
    int at = 2;
    const bool is_toy = argc > at && strcmp(argv[at], "--toy") == 0;
    at += is_toy;
    if (argc > at + 1 && strcmp(argv[at], "--plant") == 0) {
        bits.plant = argv[at + 1];
        at += 2;
    }
    if (argc < 2 || (argc > at && argv[at][0] == '-')) {
        fprintf(stderr, "usage: gpu_bits DEVICE [--toy] [--plant RUN] [CHECK...]\n");
        return 2;
    }
    bits.names = argv + at;
    bits.n_names = argc - at;
    gpu_open(argv[1], is_toy, &bits.gpu);
    gpu_load(&bits.gpu, &cuda_image);
    bits_products(&bits);
    bits_attention(&bits);
    gpu_close(&bits.gpu);
    if (bits.n_checks == 0) {
        fprintf(stderr, "gpu_bits: there is no check of such a name\n");
        return 2;
    }
    return bits.n_failed == 0 ? 0 : 3;
}
