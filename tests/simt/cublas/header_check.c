/* What device/cublas.h declares is what NVIDIA's cublasLt.h declares: numbers, sizes, and how many arguments of which size. Compiled
 * where that header is at hand; it has nothing to run. */
#include "device/cublas.h"

#include <cublasLt.h>

#define X(name, theirs, value) _Static_assert((int)(theirs) == (value), #theirs);
CUBLAS_CONSTANTS(X)
#undef X

_Static_assert(sizeof(struct cublas_algorithm) == sizeof(cublasLtMatmulAlgo_t), "");
_Static_assert(sizeof(struct cublas_heuristic) == sizeof(cublasLtMatmulHeuristicResult_t), "");
_Static_assert(offsetof(struct cublas_heuristic, workspace_bytes) ==
                   offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize),
               "");
_Static_assert(offsetof(struct cublas_heuristic, state) ==
                   offsetof(cublasLtMatmulHeuristicResult_t, state),
               "");
_Static_assert(sizeof(cublas_code) == sizeof(cublasStatus_t), "");
