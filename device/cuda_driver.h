/*
 * cuda_driver - the calls of NVIDIA's driver that this folder makes. They are declared here, so that the build needs no
 * NVIDIA files and the program runs without a driver. libcuda.so.1 is opened at run time, and each entry is looked up
 * by the name and version in the list.
 *
 * tests/simt/driver/header_check.c compares types, numbers and signatures with NVIDIA's header if it is installed. The
 * test double of tests/simt/driver is built against this file and exports the names in the third column.
 *
 * Thread: open: main; the calls: any.
 */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* The image's kernels and the versioned names below are for this release: 13.0. */
#define CUDA_DRIVER_VERSION 13000

typedef uint32_t cuda_code;              /* CUresult; 0: success */
typedef unsigned long long cuda_address; /* CUdeviceptr: an address in device memory */
typedef int cuda_ordinal;                /* CUdevice */
typedef struct CUctx_st *cuda_context;
typedef struct CUstream_st *cuda_stream;
typedef struct CUevent_st *cuda_event;
typedef struct CUmod_st *cuda_module;
typedef struct CUfunc_st *cuda_function;
typedef struct CUgraph_st *cuda_graph;
typedef struct CUgraphExec_st *cuda_graph_exec;

struct cuda_ipc_handle {
    char reserved[64];
};

/* CUDA_ERROR_<name>: the codes that this folder distinguishes. */
#define CUDA_CODES(X)                                                                              \
    X(INVALID_VALUE, 1)                                                                            \
    X(OUT_OF_MEMORY, 2)                                                                            \
    X(STUB_LIBRARY, 34)                                                                            \
    X(NO_DEVICE, 100)                                                                              \
    X(INVALID_DEVICE, 101)                                                                         \
    X(INVALID_IMAGE, 200)                                                                          \
    X(NO_BINARY_FOR_GPU, 209)                                                                      \
    X(INVALID_PTX, 218)                                                                            \
    X(JIT_COMPILER_NOT_FOUND, 221)                                                                 \
    X(UNSUPPORTED_PTX_VERSION, 222)                                                                \
    X(NOT_FOUND, 500)                                                                              \
    X(NOT_READY, 600)                                                                              \
    X(NOT_SUPPORTED, 801)                                                                          \
    X(SYSTEM_DRIVER_MISMATCH, 803)                                                                 \
    X(COMPAT_NOT_SUPPORTED_ON_DEVICE, 804)

enum cuda_codes {
    CUDA_CODE_SUCCESS,
#define X(name, value) CUDA_CODE_##name = value,
    CUDA_CODES(X)
#undef X
};

/* Our CUDA_<name>, NVIDIA's name, value. */
#define CUDA_CONSTANTS(X)                                                                          \
    X(STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING, 1)                                              \
    X(EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING, 2)                                            \
    X(HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE, 1)                                                  \
    X(IPC_LAZY_PEER_ACCESS, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, 1)                                 \
    X(CAPTURE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1)                                \
    X(DEVICE_N_PROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)                           \
    X(DEVICE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                              \
    X(DEVICE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                              \
    X(DEVICE_SHARED_BYTES_MAX, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 97)          \
    X(FUNCTION_THREADS_MAX, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0)                            \
    X(FUNCTION_SHARED_BYTES, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1)                               \
    X(FUNCTION_DYNAMIC_SHARED_MAX, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8)             \
    X(SYMBOL_VERSION_NOT_SUFFICIENT, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, 2)

enum cuda_constants {
#define X(name, theirs, value) CUDA_##name = value,
    CUDA_CONSTANTS(X)
#undef X
};

/* The name for cuGetProcAddress, the version of the variant, the library's exported name, arguments. Each returns a
 * cuda_code. */
#define CUDA_DRIVER_CALLS(X)                                                                       \
    X(cuInit, 2000, cuInit, (unsigned flags))                                                      \
    X(cuDeviceGetCount, 2000, cuDeviceGetCount, (int *n_out))                                      \
    X(cuDeviceGet, 2000, cuDeviceGet, (cuda_ordinal * ordinal_out, int number))                    \
    X(cuDeviceGetName, 2000, cuDeviceGetName, (char *name_out, int bytes, cuda_ordinal ordinal))   \
    X(cuDeviceTotalMem, 3020, cuDeviceTotalMem_v2, (size_t * bytes_out, cuda_ordinal ordinal))     \
    X(cuDeviceGetAttribute, 2000, cuDeviceGetAttribute,                                            \
      (int *value_out, unsigned attribute, cuda_ordinal ordinal))                                  \
    X(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain,                                    \
      (cuda_context * context_out, cuda_ordinal ordinal))                                          \
    X(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease_v2, (cuda_ordinal ordinal))      \
    X(cuCtxSetCurrent, 4000, cuCtxSetCurrent, (cuda_context context))                              \
    X(cuMemGetInfo, 3020, cuMemGetInfo_v2, (size_t * free_out, size_t * total_out))                \
    X(cuMemAlloc, 3020, cuMemAlloc_v2, (cuda_address * address_out, size_t bytes))                 \
    X(cuMemFree, 3020, cuMemFree_v2, (cuda_address address))                                       \
    X(cuMemHostAlloc, 2020, cuMemHostAlloc, (void **memory_out, size_t bytes, unsigned flags))     \
    X(cuMemFreeHost, 2000, cuMemFreeHost, (void *memory))                                          \
    X(cuMemsetD8Async, 3020, cuMemsetD8Async,                                                      \
      (cuda_address to, unsigned char value, size_t n, cuda_stream stream))                        \
    X(cuMemcpyHtoDAsync, 3020, cuMemcpyHtoDAsync_v2,                                               \
      (cuda_address to, const void *from, size_t bytes, cuda_stream stream))                       \
    X(cuMemcpyDtoHAsync, 3020, cuMemcpyDtoHAsync_v2,                                               \
      (void *to, cuda_address from, size_t bytes, cuda_stream stream))                             \
    X(cuMemcpyDtoDAsync, 3020, cuMemcpyDtoDAsync_v2,                                               \
      (cuda_address to, cuda_address from, size_t bytes, cuda_stream stream))                      \
    X(cuMemGetAddressRange, 3020, cuMemGetAddressRange_v2,                                         \
      (cuda_address * base_out, size_t * bytes_out, cuda_address address))                         \
    X(cuStreamCreate, 2000, cuStreamCreate, (cuda_stream * stream_out, unsigned flags))            \
    X(cuStreamDestroy, 4000, cuStreamDestroy_v2, (cuda_stream stream))                             \
    X(cuStreamSynchronize, 2000, cuStreamSynchronize, (cuda_stream stream))                        \
    X(cuStreamWaitEvent, 3020, cuStreamWaitEvent,                                                  \
      (cuda_stream stream, cuda_event event, unsigned flags))                                      \
    X(cuEventCreate, 2000, cuEventCreate, (cuda_event * event_out, unsigned flags))                \
    X(cuEventDestroy, 4000, cuEventDestroy_v2, (cuda_event event))                                 \
    X(cuEventRecord, 2000, cuEventRecord, (cuda_event event, cuda_stream stream))                  \
    X(cuEventQuery, 2000, cuEventQuery, (cuda_event event))                                        \
    X(cuModuleLoadData, 2000, cuModuleLoadData, (cuda_module * module_out, const void *image))     \
    X(cuModuleUnload, 2000, cuModuleUnload, (cuda_module module))                                  \
    X(cuModuleGetFunction, 2000, cuModuleGetFunction,                                              \
      (cuda_function * function_out, cuda_module module, const char *name))                        \
    X(cuFuncLoad, 12040, cuFuncLoad, (cuda_function function))                                     \
    X(cuFuncGetAttribute, 2020, cuFuncGetAttribute,                                                \
      (int *value_out, unsigned attribute, cuda_function function))                                \
    X(cuFuncSetAttribute, 9000, cuFuncSetAttribute,                                                \
      (cuda_function function, unsigned attribute, int value))                                     \
    X(cuFuncGetParamInfo, 12040, cuFuncGetParamInfo,                                               \
      (cuda_function function, size_t index, size_t * offset_out, size_t * bytes_out))             \
    X(cuLaunchKernel, 4000, cuLaunchKernel,                                                        \
      (cuda_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,                  \
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,                \
       cuda_stream stream, void **parameters, void **extra))                                       \
    X(cuStreamBeginCapture, 10010, cuStreamBeginCapture_v2, (cuda_stream stream, unsigned mode))   \
    X(cuStreamEndCapture, 10000, cuStreamEndCapture, (cuda_stream stream, cuda_graph * graph_out)) \
    X(cuGraphInstantiate, 12000, cuGraphInstantiateWithFlags,                                      \
      (cuda_graph_exec * exec_out, cuda_graph graph, unsigned long long flags))                    \
    X(cuGraphUpload, 11010, cuGraphUpload, (cuda_graph_exec exec, cuda_stream stream))             \
    X(cuGraphDestroy, 10000, cuGraphDestroy, (cuda_graph graph))                                   \
    X(cuGraphExecDestroy, 10000, cuGraphExecDestroy, (cuda_graph_exec exec))                       \
    X(cuGraphLaunch, 10000, cuGraphLaunch, (cuda_graph_exec exec, cuda_stream stream))             \
    X(cuIpcGetMemHandle, 4010, cuIpcGetMemHandle,                                                  \
      (struct cuda_ipc_handle * handle_out, cuda_address address))                                 \
    X(cuIpcOpenMemHandle, 11000, cuIpcOpenMemHandle_v2,                                            \
      (cuda_address * address_out, struct cuda_ipc_handle handle, unsigned flags))                 \
    X(cuIpcCloseMemHandle, 4010, cuIpcCloseMemHandle, (cuda_address address))

/* Looked up first, with dlsym: their names are the same in every release since 12.0. */
#define CUDA_DRIVER_FIRST_CALLS(X)                                                                 \
    X(cuDriverGetVersion, 2020, cuDriverGetVersion, (int *version_out))                            \
    X(cuGetErrorName, 6000, cuGetErrorName, (cuda_code code, const char **name_out))               \
    X(cuGetProcAddress, 12000, cuGetProcAddress_v2,                                                \
      (const char *name, void **entry_out, int version, uint64_t flags, uint32_t *result_out))

struct cuda_driver {
    void *library;
    int version; /* 13020: 13.2 */
#define X(name, version, exported, arguments) cuda_code(*name) arguments;
    CUDA_DRIVER_FIRST_CALLS(X)
    CUDA_DRIVER_CALLS(X)
#undef X
};

/* Opens the library, looks up all entries, calls cuInit. NOT_FOUND: no driver or no GPU. UNSUPPORTED: the driver is too
 * old for the kernels, or cuInit fails. DEVICE_LOST: another call fails. All with a sentence. */
MUST_CHECK enum status cuda_driver_open(struct cuda_driver *driver_out, struct error *error);
/* A zeroed one is fine. The library stays in the process, because it has its own threads. */
void cuda_driver_close(struct cuda_driver *driver);

/* The only place that translates codes of the driver. */
enum status cuda_status(cuda_code code);
/* "cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (2)"; returns cuda_status(code). error may be NULL. */
enum status cuda_error(const struct cuda_driver *driver, const char *call, cuda_code code,
                       struct error *error);
