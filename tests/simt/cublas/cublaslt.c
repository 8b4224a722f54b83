/* A libcublasLt.so.13 of our own, over the driver double: the calls of device/cublas.h, with the rules of arguments that NVIDIA
 * documents. A product is the slim kernel of the double's own module, launched on the caller's stream. What breaks a rule
 * ends the process with a sentence. DOUBLE_FAIL, DOUBLE_LOG, DOUBLE_REFUSED_TOKENS: ../driver/README.md. */
#include "device/cublas.h"
#include "device/cuda_driver.h"
#include "kernels/cuda/products_parameters.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKSPACE = 4096, MAGIC = 0x6b76 };
/* Of the slim kernel: cuda_gemm.c. */
enum {
    SHARED_BYTES = PRODUCT_SLIM_STAGES * PRODUCT_SLIM_K * (PRODUCT_SLIM_OUT + PRODUCT_SLIM_TOKENS) *
                   2
};

enum kind { PRODUCT = 1, MATRIX, PREFERENCE };

struct cublas_opaque {
    enum kind kind;
    int compute, scale, left_op; /* of a product */
    int type;                    /* of a matrix */
    uint64_t n_rows, n_columns;
    int64_t stride;
    uint64_t workspace; /* of a preference */
    uint32_t alignments[4];
};

struct cublasLtContext {
    cuda_code (*launch)(cuda_function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, cuda_stream, void **, void **);
    cuda_code (*unload)(cuda_module);
    cuda_module module;
    cuda_function of_bf16, of_f16;
};

static int n_objects; /* that nobody tried to destroy */

__attribute__((format(printf, 1, 2), noreturn)) static void misuse(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("cublaslt-double: REPORT ", stderr);
    vfprintf(stderr, format, args);
    fputs("\n", stderr);
    va_end(args);
    abort();
}

/* ---- failures on demand ---- */

/* A rule of DOUBLE_FAIL, with how often its call is still to be made. */
struct rule {
    char call[64];
    int left, code;
};

static struct rule *read_rules(void)
{
    static struct rule rules[16];
    const char *next = getenv("DOUBLE_FAIL");
    for (int i = 0; next && *next && i < 15; i++) {
        if (sscanf(next, "%63[^:]:%d:%d", rules[i].call, &rules[i].left, &rules[i].code) != 3)
            misuse("DOUBLE_FAIL=%s", next);
        next = strchr(next, ',');
        next = next ? next + 1 : NULL;
    }
    return rules;
}

/* The driver's * is not of these. */
static cublas_code injected(const char *call)
{
    static struct rule *rules;
    cublas_code code = CUBLAS_CODE_SUCCESS;
    rules = rules ? rules : read_rules();
    for (struct rule *rule = rules; rule->call[0]; rule++)
        if (strcmp(rule->call, call) == 0 && --rule->left == 0)
            code = rule->code;
    if (getenv("DOUBLE_LOG"))
        fprintf(stderr, "cublaslt-double: %s -> %d\n", call, code);
    return code;
}

/* Before anything is done. */
#define ENTER()                                                                                    \
    do {                                                                                           \
        cublas_code code_ = injected(__func__);                                                    \
        if (code_ != CUBLAS_CODE_SUCCESS)                                                          \
            return code_;                                                                          \
    } while (0)

/* ---- the handle ---- */

#define EXPORT             __attribute__((visibility("default")))
#define X(name, arguments) EXPORT cublas_code name arguments;
CUBLAS_CALLS(X)
#undef X

static void *entry(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found)
        misuse("the driver has no %s", name);
    return found;
}

cublas_code cublasLtCreate(cublas_handle *handle_out)
{
    static const char words[] = "kvferry driver double, module products_mma";
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    cuda_code (*load)(cuda_module *, const void *),
        (*get)(cuda_function *, cuda_module, const char *), (*load_function)(cuda_function),
        (*set)(cuda_function, unsigned, int);
    ENTER();
    struct cublasLtContext *made = calloc(1, sizeof *made);
    if (!driver || !made)
        misuse("no driver, or no memory");
    *(void **)&load = entry(driver, "cuModuleLoadData");
    *(void **)&get = entry(driver, "cuModuleGetFunction");
    *(void **)&load_function = entry(driver, "cuFuncLoad");
    *(void **)&set = entry(driver, "cuFuncSetAttribute");
    *(void **)&made->launch = entry(driver, "cuLaunchKernel");
    *(void **)&made->unload = entry(driver, "cuModuleUnload");
    if (load(&made->module, words) || get(&made->of_bf16, made->module, "product_bf16_bf16_slim") ||
        get(&made->of_f16, made->module, "product_f16_f16_slim") || load_function(made->of_bf16) ||
        load_function(made->of_f16) ||
        set(made->of_bf16, CUDA_FUNCTION_DYNAMIC_SHARED_MAX, SHARED_BYTES) ||
        set(made->of_f16, CUDA_FUNCTION_DYNAMIC_SHARED_MAX, SHARED_BYTES)) {
        if (made->module)
            (void)made->unload(made->module);
        free(made);
        return CUBLAS_CODE_NOT_INITIALIZED;
    }
    *handle_out = made;
    return CUBLAS_CODE_SUCCESS;
}

cublas_code cublasLtDestroy(cublas_handle handle)
{
    ENTER();
    if (n_objects)
        misuse("%d descriptions are left when the handle is destroyed", n_objects);
    (void)handle->unload(handle->module);
    free(handle);
    return CUBLAS_CODE_SUCCESS;
}

static cublas_object make(enum kind kind)
{
    cublas_object object = calloc(1, sizeof *object);
    if (!object)
        misuse("no memory");
    object->kind = kind;
    n_objects++;
    return object;
}

static void check_kind(cublas_object object, enum kind kind, const char *call)
{
    if (!object || object->kind != kind)
        misuse("%s of what is no description of that kind", call);
}

static cublas_code destroy(cublas_object object, enum kind kind, const char *call)
{
    cublas_code code = injected(call);
    check_kind(object, kind, call);
    object->kind = 0;
    n_objects--;
    free(object);
    return code;
}

cublas_code cublasLtMatmulDescCreate(cublas_object *product_out, int compute, int scale)
{
    ENTER();
    *product_out = make(PRODUCT);
    (*product_out)->compute = compute;
    (*product_out)->scale = scale;
    return CUBLAS_CODE_SUCCESS;
}

cublas_code cublasLtMatmulDescSetAttribute(cublas_object product, int attribute, const void *value,
                                           size_t bytes)
{
    ENTER();
    check_kind(product, PRODUCT, __func__);
    if (attribute != CUBLAS_PRODUCT_LEFT_OP || bytes != sizeof(int))
        misuse("%s: attribute %d of %zu bytes is not covered", __func__, attribute, bytes);
    memcpy(&product->left_op, value, bytes);
    return CUBLAS_CODE_SUCCESS;
}

cublas_code cublasLtMatmulDescDestroy(cublas_object product)
{
    return destroy(product, PRODUCT, __func__);
}

cublas_code cublasLtMatrixLayoutCreate(cublas_object *matrix_out, int type, uint64_t n_rows,
                                       uint64_t n_columns, int64_t stride)
{
    ENTER();
    if (stride < 0 || (uint64_t)stride < n_rows)
        misuse("a leading dimension of %lld for %llu rows", (long long)stride,
               (unsigned long long)n_rows);
    *matrix_out = make(MATRIX);
    (*matrix_out)->type = type;
    (*matrix_out)->n_rows = n_rows;
    (*matrix_out)->n_columns = n_columns;
    (*matrix_out)->stride = stride;
    return CUBLAS_CODE_SUCCESS;
}

cublas_code cublasLtMatrixLayoutSetAttribute(cublas_object matrix, int attribute, const void *value,
                                             size_t bytes)
{
    ENTER();
    check_kind(matrix, MATRIX, __func__);
    if (attribute != CUBLAS_MATRIX_COLUMNS || bytes != sizeof matrix->n_columns)
        misuse("%s: attribute %d of %zu bytes is not covered", __func__, attribute, bytes);
    memcpy(&matrix->n_columns, value, bytes);
    return CUBLAS_CODE_SUCCESS;
}

cublas_code cublasLtMatrixLayoutDestroy(cublas_object matrix)
{
    return destroy(matrix, MATRIX, __func__);
}

cublas_code cublasLtMatmulPreferenceCreate(cublas_object *preference_out)
{
    ENTER();
    *preference_out = make(PREFERENCE);
    for (int i = 0; i < 4; i++)
        (*preference_out)->alignments[i] = 256;
    return CUBLAS_CODE_SUCCESS;
}

cublas_code cublasLtMatmulPreferenceSetAttribute(cublas_object preference, int attribute,
                                                 const void *value, size_t bytes)
{
    ENTER();
    check_kind(preference, PREFERENCE, __func__);
    const int alignment = attribute - CUBLAS_PREFER_ALIGNMENT_A;
    if (attribute == CUBLAS_PREFER_WORKSPACE && bytes == sizeof preference->workspace)
        memcpy(&preference->workspace, value, bytes);
    else if (alignment >= 0 && alignment < 4 && bytes == sizeof(uint32_t))
        memcpy(&preference->alignments[alignment], value, bytes);
    else
        misuse("%s: attribute %d of %zu bytes is not covered", __func__, attribute, bytes);
    return CUBLAS_CODE_SUCCESS;
}

cublas_code cublasLtMatmulPreferenceDestroy(cublas_object preference)
{
    return destroy(preference, PREFERENCE, __func__);
}

/* D (m x n) = A^T (m x k) B (k x n), C as D. */
static cublas_code judge(cublas_object product, const cublas_object matrices[4])
{
    const cublas_object a = matrices[0], b = matrices[1], c = matrices[2], d = matrices[3];
    check_kind(product, PRODUCT, "a product");
    for (int i = 0; i < 4; i++)
        check_kind(matrices[i], MATRIX, "a product");
    if (product->compute != CUBLAS_COMPUTE_FLOAT || product->scale != CUBLAS_TYPE_F32 ||
        product->left_op != CUBLAS_TRANSPOSED)
        misuse("compute %d, scale %d, op %d are not covered", product->compute, product->scale,
               product->left_op);
    if (a->n_rows != b->n_rows || a->n_columns != d->n_rows || b->n_columns != d->n_columns ||
        c->n_rows != d->n_rows || c->n_columns != d->n_columns)
        return CUBLAS_CODE_INVALID_VALUE;
    const bool is_half = a->type == CUBLAS_TYPE_BF16 || a->type == CUBLAS_TYPE_F16;
    return is_half && a->type == b->type && c->type == d->type &&
                   (d->type == a->type || d->type == CUBLAS_TYPE_F32)
               ? CUBLAS_CODE_SUCCESS
               : CUBLAS_CODE_NOT_SUPPORTED;
}

cublas_code cublasLtMatmulAlgoGetHeuristic(cublas_handle handle, cublas_object product,
                                           cublas_object a, cublas_object b, cublas_object c,
                                           cublas_object d, cublas_object preference, int n_wanted,
                                           struct cublas_heuristic *results_out, int *n_out)
{
    const cublas_object matrices[] = {a, b, c, d};
    ENTER();
    check_kind(preference, PREFERENCE, __func__);
    cublas_code code = judge(product, matrices);
    *n_out = 0;
    if (!handle || n_wanted < 1 || code != CUBLAS_CODE_SUCCESS)
        return code ? code : CUBLAS_CODE_INVALID_VALUE;
    if (preference->workspace < WORKSPACE)
        return CUBLAS_CODE_NOT_SUPPORTED;
    *results_out = (struct cublas_heuristic){.workspace_bytes = WORKSPACE};
    results_out->algorithm.data[0] = MAGIC;
    results_out->algorithm.data[1] = d->n_columns;
    for (int i = 0; i < 4; i++)
        results_out->algorithm.data[2 + i] = preference->alignments[i];
    *n_out = 1;
    return CUBLAS_CODE_SUCCESS;
}

/* Those of more than 16 columns take no fewer than 8, and none of another number takes DOUBLE_REFUSED_TOKENS: some steps are not
 * the library's. */
static bool is_refused(uint64_t n_columns, uint64_t n_chosen)
{
    const char *refused = getenv("DOUBLE_REFUSED_TOKENS");
    return (n_chosen > 16 && n_columns < 8) ||
           (refused && n_columns == strtoull(refused, NULL, 10) && n_chosen != n_columns);
}

static cublas_code check(cublas_object product, const cublas_object matrices[4],
                         const struct cublas_algorithm *algorithm)
{
    cublas_code code = judge(product, matrices);
    if (!algorithm || algorithm->data[0] != MAGIC)
        misuse("an algorithm that no heuristic gave");
    if (code == CUBLAS_CODE_SUCCESS && is_refused(matrices[3]->n_columns, algorithm->data[1]))
        return CUBLAS_CODE_NOT_SUPPORTED;
    return code;
}

cublas_code cublasLtMatmulAlgoCheck(cublas_handle handle, cublas_object product, cublas_object a,
                                    cublas_object b, cublas_object c, cublas_object d,
                                    const struct cublas_algorithm *algorithm,
                                    struct cublas_heuristic *result_out)
{
    const cublas_object matrices[] = {a, b, c, d};
    ENTER();
    *result_out = (struct cublas_heuristic){.workspace_bytes = WORKSPACE};
    result_out->state = check(product, matrices, algorithm);
    if (getenv("DOUBLE_LOG") && result_out->state == CUBLAS_CODE_NOT_SUPPORTED)
        fprintf(stderr, "cublaslt-double: %llu tokens are not for the algorithm of %llu\n",
                (unsigned long long)d->n_columns, (unsigned long long)algorithm->data[1]);
    return handle ? result_out->state : CUBLAS_CODE_INVALID_VALUE;
}

static uint32_t dtype_of(int type)
{
    return type == CUBLAS_TYPE_F32 ? DTYPE_F32 : type == CUBLAS_TYPE_F16 ? DTYPE_F16 : DTYPE_BF16;
}

static void check_addresses(const struct cublas_algorithm *algorithm,
                            const void *const addresses[4])
{
    for (int i = 0; i < 4; i++)
        if (!addresses[i] || (uintptr_t)addresses[i] % algorithm->data[2 + i] != 0)
            misuse("matrix %c is at %p, and its algorithm is for multiples of %llu", "ABCD"[i],
                   addresses[i], (unsigned long long)algorithm -> data[2 + i]);
}

cublas_code cublasLtMatmul(cublas_handle handle, cublas_object product, const void *alpha,
                           const void *a, cublas_object a_matrix, const void *b,
                           cublas_object b_matrix, const void *beta, const void *c,
                           cublas_object c_matrix, void *d, cublas_object d_matrix,
                           const struct cublas_algorithm *algorithm, void *workspace,
                           size_t workspace_bytes, cuda_stream stream)
{
    const cublas_object matrices[] = {a_matrix, b_matrix, c_matrix, d_matrix};
    const void *const addresses[] = {a, b, c, d};
    const cublas_code fails = injected(__func__);
    cublas_code code = check(product, matrices, algorithm);
    if (code != CUBLAS_CODE_SUCCESS)
        return code;
    if (getenv("DOUBLE_LOG"))
        fprintf(stderr, "cublaslt-double: product of %llu tokens\n",
                (unsigned long long)d_matrix->n_columns);
    check_addresses(algorithm, addresses);
    if (!workspace || workspace_bytes < WORKSPACE || (uintptr_t)workspace % 256 != 0)
        misuse("a workspace of %zu bytes at %p", workspace_bytes, workspace);
    float of_product, of_sum;
    memcpy(&of_product, alpha, sizeof of_product); /* the host's: a device's address faults */
    memcpy(&of_sum, beta, sizeof of_sum);
    if (of_product < 1 || of_product > 1 || (of_sum > 0 && (of_sum < 1 || of_sum > 1 || c != d)))
        misuse("alpha %g and beta %g are not covered", (double)of_product, (double)of_sum);
    struct products_parameters parameters = {0};
    parameters.products[0] = (struct product){.x = b,
                                              .w = a,
                                              .y = d,
                                              .x_stride = (uint64_t)b_matrix->stride,
                                              .y_stride = (uint64_t)d_matrix->stride,
                                              .n_tokens = (uint32_t)d_matrix->n_columns,
                                              .n_in = (uint32_t)a_matrix->n_rows,
                                              .n_out = (uint32_t)d_matrix->n_rows,
                                              .x_dtype = dtype_of(b_matrix->type),
                                              .w_dtype = dtype_of(a_matrix->type),
                                              .y_dtype = dtype_of(d_matrix->type),
                                              .accumulate = of_sum > 0};
    if ((uint64_t)a_matrix->stride != a_matrix->n_rows)
        misuse("weights with room between their rows are not covered");
    const struct product *p = &parameters.products[0];
    void *arguments[] = {&parameters};
    code = handle->launch(a_matrix->type == CUBLAS_TYPE_BF16 ? handle->of_bf16 : handle->of_f16,
                          (p->n_tokens + PRODUCT_SLIM_TOKENS - 1) / PRODUCT_SLIM_TOKENS,
                          (p->n_out + PRODUCT_SLIM_OUT - 1) / PRODUCT_SLIM_OUT, 1, 128, 1, 1,
                          SHARED_BYTES, stream, arguments, NULL)
               ? CUBLAS_CODE_EXECUTION_FAILED
               : CUBLAS_CODE_SUCCESS;
    return fails ? fails : code; /* what fails may have been enqueued all the same */
}
