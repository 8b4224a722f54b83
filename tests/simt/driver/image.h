/*
 * image - the kernels for the double: a shared object that exports `const Image kvferry_double_image`; and the words
 * that the library and its executor exchange over a socket.
 */
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
#include "device/device.h"
}

using LaunchShape = struct device_shape;

/* A field of a kernel's parameters that is an address of the device. */
struct PointerInfo {
    char name[40];
    uint32_t offset;
};
struct KernelInfo {
    char name[64], module[32];
    uint32_t parameter_bytes, threads, n_pointers;
    PointerInfo pointer[64];
};
struct Image {
    uint32_t magic, n_kernels;
    const KernelInfo *info;
    void (*run)(uint32_t kernel, const LaunchShape &shape, const void *parameters, bool late_copies,
                uint32_t seed);
    /* What the kernels touch from now on. */
    void (*observe)(void (*seen)(const volatile void *p, size_t n, uint8_t kinds));
    void (*add)(const void *base, size_t bytes); /* an allocation, for the harness's own checks */
    void (*remove)(const void *base);
};
enum : uint8_t { SEEN_READ = 1, SEEN_WRITE = 2 };
enum : uint32_t { IMAGE_MAGIC = 0x6b766432 };

/* What the double calls a module; modules.c gives the product this in place of a fat binary. */
#define DOUBLE_MODULE_PREFIX "kvferry driver double, module "

/* Of the device that it plays. */
enum : int { N_PROCESSORS = 4 };

/*
 * Addresses that mean the same in the client, the executor and the harness. Chosen inside the range that ThreadSanitizer
 * and AddressSanitizer leave to applications, below where the kernel places libraries.
 */
enum : uint64_t {
    DEVICE_BASE = 0x7e9000000000,
    PINNED_BASE = 0x7eb000000000,
    IMPORT_BASE = 0x7ec000000000,
    SPACE_END = 0x7ed000000000,
    PAGE = 4096
};

enum class Order : uint32_t { map = 1, unmap, load, run };
struct Request {
    Order order;
    uint32_t kernel, late_copies, seed, parameter_bytes, path_bytes;
    uint64_t address, bytes, offset; /* map, unmap: of pages */
    uint64_t base, length; /* of the allocation in them; length 0: kernels may not touch it */
    LaunchShape shape;
};
enum class Outcome : uint32_t { ok = 0, failed, bad_address, aborted };
struct Reply {
    Outcome outcome;
    uint32_t count; /* kernels after load, access runs after run */
    uint64_t address;
};
struct AccessRun {
    uint64_t begin, end;
    uint32_t write, pad;
};
