/*
 * What device/cuda_driver.h declares is what NVIDIA's cuda.h declares: types, numbers, versions, signatures. Compiled where a
 * toolkit is at hand; it has nothing to run.
 */
#include "device/cuda_driver.h"

#include <cuda.h>
#include <cudaTypedefs.h>

/* A structure by another tag is another type to the compiler: size and alignment are compared, then theirs stands for ours. */
_Static_assert(sizeof(struct cuda_ipc_handle) == sizeof(CUipcMemHandle), "");
_Static_assert(_Alignof(struct cuda_ipc_handle) == _Alignof(CUipcMemHandle), "");
#define cuda_ipc_handle CUipcMemHandle_st

#define SAME(a, b) _Static_assert(__builtin_types_compatible_p(a, b), #a " is " #b)
SAME(cuda_code, CUresult);
SAME(cuda_address, CUdeviceptr);
SAME(cuda_ordinal, CUdevice);
SAME(cuda_context, CUcontext);
SAME(cuda_stream, CUstream);
SAME(cuda_event, CUevent);
SAME(cuda_module, CUmodule);
SAME(cuda_function, CUfunction);
SAME(cuda_graph, CUgraph);
SAME(cuda_graph_exec, CUgraphExec);

_Static_assert(CUDA_DRIVER_VERSION == CUDA_VERSION / 1000 * 1000, "");

#define X(name, value) _Static_assert(CUDA_ERROR_##name == (value), #name);
CUDA_CODES(X)
#undef X

#define X(name, theirs, value) _Static_assert((int)(theirs) == (value), #theirs);
CUDA_CONSTANTS(X)
#undef X

/* Those of the double. */
#define CODE(name, value) _Static_assert(CUDA_##name == (value), #name);
#include "tests/simt/driver/codes.list"
#undef CODE

/* The function that the library exports by that name, and the type that NVIDIA has for the variant of that version. */
#define X(name, version, exported, arguments)                                                      \
    SAME(__typeof__(&exported), cuda_code(*) arguments);                                           \
    SAME(PFN_##name##_v##version, cuda_code(*) arguments);
CUDA_DRIVER_FIRST_CALLS(X)
#define PFN_cuGraphInstantiate_v12000 PFN_cuGraphInstantiateWithFlags_v11040 /* the same function */
CUDA_DRIVER_CALLS(X)
#undef X
