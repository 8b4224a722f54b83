/*
 * cublas - the calls of NVIDIA's libcublasLt that this folder makes. As for the driver (cuda_driver.h), they are
 * declared here, and the library is opened at run time. tests/simt/cublas/header_check.c compares numbers and sizes
 * with NVIDIA's header if it is installed; the test double of tests/simt/cublas is built against this file.
 *
 * Thread: open: main; the calls: one at a time.
 */
#pragma once

#include "device/cuda_driver.h"

typedef int cublas_code; /* cublasStatus_t */
typedef struct cublasLtContext *cublas_handle;
typedef struct cublas_opaque
    *cublas_object; /* a description of a product, a matrix or a preference */

struct cublas_algorithm {
    uint64_t data[8];
};
struct cublas_heuristic {
    struct cublas_algorithm algorithm;
    size_t workspace_bytes;
    cublas_code state;
    float n_waves;
    int reserved[4];
};

/* our name, NVIDIA's name, value */
#define CUBLAS_CONSTANTS(X)                                                                        \
    X(CUBLAS_CODE_SUCCESS, CUBLAS_STATUS_SUCCESS, 0)                                               \
    X(CUBLAS_CODE_NOT_INITIALIZED, CUBLAS_STATUS_NOT_INITIALIZED, 1)                               \
    X(CUBLAS_CODE_ALLOC_FAILED, CUBLAS_STATUS_ALLOC_FAILED, 3)                                     \
    X(CUBLAS_CODE_INVALID_VALUE, CUBLAS_STATUS_INVALID_VALUE, 7)                                   \
    X(CUBLAS_CODE_ARCH_MISMATCH, CUBLAS_STATUS_ARCH_MISMATCH, 8)                                   \
    X(CUBLAS_CODE_EXECUTION_FAILED, CUBLAS_STATUS_EXECUTION_FAILED, 13)                            \
    X(CUBLAS_CODE_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED, 15)                                  \
    X(CUBLAS_TYPE_F32, CUDA_R_32F, 0)                                                              \
    X(CUBLAS_TYPE_F16, CUDA_R_16F, 2)                                                              \
    X(CUBLAS_TYPE_BF16, CUDA_R_16BF, 14)                                                           \
    X(CUBLAS_COMPUTE_FLOAT, CUBLAS_COMPUTE_32F, 68)                                                \
    X(CUBLAS_TRANSPOSED, CUBLAS_OP_T, 1)                                                           \
    X(CUBLAS_PRODUCT_LEFT_OP, CUBLASLT_MATMUL_DESC_TRANSA, 3)                                      \
    X(CUBLAS_MATRIX_COLUMNS, CUBLASLT_MATRIX_LAYOUT_COLS, 3)                                       \
    X(CUBLAS_PREFER_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1)                        \
    X(CUBLAS_PREFER_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5)                    \
    X(CUBLAS_PREFER_ALIGNMENT_B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 6)                    \
    X(CUBLAS_PREFER_ALIGNMENT_C, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 7)                    \
    X(CUBLAS_PREFER_ALIGNMENT_D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8)

enum cublas_constants {
#define X(name, theirs, value) name = (value),
    CUBLAS_CONSTANTS(X)
#undef X
};

/* name, arguments; each returns a cublas_code. Matrices are column-major. */
#define CUBLAS_CALLS(X)                                                                            \
    X(cublasLtCreate, (cublas_handle * handle_out))                                                \
    X(cublasLtDestroy, (cublas_handle handle))                                                     \
    X(cublasLtMatmulDescCreate, (cublas_object * product_out, int compute, int scale))             \
    X(cublasLtMatmulDescSetAttribute,                                                              \
      (cublas_object product, int attribute, const void *value, size_t bytes))                     \
    X(cublasLtMatmulDescDestroy, (cublas_object product))                                          \
    X(cublasLtMatrixLayoutCreate,                                                                  \
      (cublas_object * matrix_out, int type, uint64_t n_rows, uint64_t n_columns, int64_t stride)) \
    X(cublasLtMatrixLayoutSetAttribute,                                                            \
      (cublas_object matrix, int attribute, const void *value, size_t bytes))                      \
    X(cublasLtMatrixLayoutDestroy, (cublas_object matrix))                                         \
    X(cublasLtMatmulPreferenceCreate, (cublas_object * preference_out))                            \
    X(cublasLtMatmulPreferenceSetAttribute,                                                        \
      (cublas_object preference, int attribute, const void *value, size_t bytes))                  \
    X(cublasLtMatmulPreferenceDestroy, (cublas_object preference))                                 \
    X(cublasLtMatmulAlgoGetHeuristic,                                                              \
      (cublas_handle handle, cublas_object product, cublas_object a, cublas_object b,              \
       cublas_object c, cublas_object d, cublas_object preference, int n_wanted,                   \
       struct cublas_heuristic *results_out, int *n_out))                                          \
    X(cublasLtMatmulAlgoCheck,                                                                     \
      (cublas_handle handle, cublas_object product, cublas_object a, cublas_object b,              \
       cublas_object c, cublas_object d, const struct cublas_algorithm *algorithm,                 \
       struct cublas_heuristic *result_out))                                                       \
    X(cublasLtMatmul,                                                                              \
      (cublas_handle handle, cublas_object product, const void *alpha, const void *a,              \
       cublas_object a_matrix, const void *b, cublas_object b_matrix, const void *beta,            \
       const void *c, cublas_object c_matrix, void *d, cublas_object d_matrix,                     \
       const struct cublas_algorithm *algorithm, void *workspace, size_t workspace_bytes,          \
       cuda_stream stream))

struct cublas {
    void *library;
#define X(name, arguments) cublas_code(*name) arguments;
    CUBLAS_CALLS(X)
#undef X
};

/* Opens libcublasLt.so.13, else .12. UNSUPPORTED with a sentence: not found, or a call is missing. */
MUST_CHECK enum status cublas_open(struct cublas *cublas_out, struct error *error);
