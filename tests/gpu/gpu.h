/*
 * gpu - what the measuring programs share: the device, memory with something in it, and the time of work that is enqueued.
 *
 * Figures are lines of JSON on standard output, one object a figure; measure.py collects them.
 *
 * Thread: one.
 */
#pragma once

#include "device/device.h"
#include "kernels/dtype.h"

struct gpu {
    struct device *device;
    struct device_traits traits;
    bool is_toy;      /* smallest sizes, one run: times mean nothing */
    bool is_warm;     /* gpu_time_us: something has run for a while */
    const char *only; /* gpu_measures: part of a figure's name; NULL: all */
};

/* Both end the program with a sentence where there is no such device, or it cannot run the image. */
void gpu_open(const char *name, bool is_toy, struct gpu *gpu_out);
void gpu_load(struct gpu *gpu, const struct device_image *image);
void gpu_close(struct gpu *gpu);

/* Ends the program with the status's text, and the sentence if there is one. */
void must(enum status status, const struct error *error, const char *what);

/* Normal-like numbers of deviation 1 (in 8-bit types: in units of a scale of 1 / 32), the same in every run. */
struct device_memory gpu_random(struct gpu *gpu, enum dtype dtype, uint64_t n);
/* What the host has there, sent. bytes: any. */
void gpu_write(struct gpu *gpu, uint8_t *target, const void *source, size_t bytes);
void gpu_read(struct gpu *gpu, const uint8_t *source, void *target, size_t bytes);

typedef void (*gpu_enqueue)(void *arg, uint32_t run);
/* Median microseconds of one run: runs are enqueued back to back, from a graph where the device captures, several rounds. run
 * counts up, to 8 in a graph, for whoever walks through more memory than the caches hold. */
double gpu_time_us(struct gpu *gpu, gpu_enqueue enqueue, void *arg);

/* Whether a figure of this name is asked for. */
bool gpu_measures(const struct gpu *gpu, const char *name);
