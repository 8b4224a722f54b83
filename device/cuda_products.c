/*
 * cuda_products - matrix products with cuBLASLt on the compute queue, planned at start, so that a step chooses, loads
 * and allocates nothing.
 *
 *     ours, by rows:     y [tokens][out] = x [tokens][in] w^T     w [out][in]
 *     theirs, by columns: D (out x tokens) = A^T B                A = w (in x out), B = x (in x tokens)
 */
#include "base/log/log.h"
#include "device/cublas.h"
#include "device/cuda_device.h"

#include <assert.h>
#include <stdlib.h>

enum {
    PLANS_MAX = 512,
    ALIGNMENT = 16, /* bytes, of the matrices' addresses */
};

/* A plan for products of one shape with so many tokens, and also for fewer if the algorithm accepts
 * them. */
struct plan {
    struct device_product shape; /* addresses are not used */
    cublas_object product, w, x, y;
    struct cublas_algorithm algorithm;
};

struct cuda_products {
    struct cublas cublas;
    cublas_handle handle;
    struct device_memory workspace;
    struct plan plans[PLANS_MAX];
    uint32_t n_plans;
};

static enum status judge(const char *call, cublas_code code, struct error *error)
{
    enum status status = code == CUBLAS_CODE_SUCCESS        ? STATUS_OK
                         : code == CUBLAS_CODE_ALLOC_FAILED ? STATUS_NO_MEMORY
                                                            : STATUS_UNSUPPORTED;
    return status == STATUS_OK
               ? status
               : error_set(error, status, "device_math fast: %s failed with code %d of cuBLAS",
                           call, code);
}

/* In a choice or a check: the library does not support this product. Other codes are failures. */
static bool is_refusal(cublas_code code)
{
    return code == CUBLAS_CODE_NOT_SUPPORTED || code == CUBLAS_CODE_ARCH_MISMATCH ||
           code == CUBLAS_CODE_INVALID_VALUE;
}

#define CUBLAS_TRY(products, error, call, ...)                                                     \
    TRY(judge(#call, (products)->cublas.call(__VA_ARGS__), error))

enum status cuda_products_open(struct device *device, struct error *error)
{
    struct cuda_device *cuda = cuda_of(device);
    assert(!cuda->products && "once");
    TRY(cuda_make_current(cuda));
    struct cuda_products *products = calloc(1, sizeof *products);
    if (!products)
        return error_set(error, STATUS_NO_MEMORY, "no memory for plans of products");
    cuda->products = products; /* cuda_products_close closes it in any case */
    TRY(cublas_open(&products->cublas, error));
    TRY(cuda_say_room(
        cuda, judge("cublasLtCreate", products->cublas.cublasLtCreate(&products->handle), error),
        error));
    enum status status = device_allocate(device, DEVICE_WORKSPACE, DEVICE_PRODUCTS_BYTES,
                                         &products->workspace);
    return status == STATUS_NO_MEMORY
               ? device_no_memory(device, "products of cuBLASLt", DEVICE_PRODUCTS_BYTES, error)
               : status;
}

/* A failure to free is ignored: it cannot be repaired. */
static void destroyed(const char *call, cublas_code code)
{
    struct error error = {""};
    if (judge(call, code, &error) != STATUS_OK)
        log_warn("%s", error.text);
}

#define DESTROY(cublas, call, object) destroyed(#call, (cublas)->call(object))

static void drop(const struct cublas *cublas, struct plan *plan)
{
    cublas_object matrices[] = {plan->w, plan->x, plan->y};
    for (int i = 0; i < 3; i++)
        if (matrices[i])
            DESTROY(cublas, cublasLtMatrixLayoutDestroy, matrices[i]);
    if (plan->product)
        DESTROY(cublas, cublasLtMatmulDescDestroy, plan->product);
    *plan = (struct plan){0};
}

/* When the device is lost, the library is not called any more, as the driver is not. */
void cuda_products_close(struct device *device)
{
    struct cuda_device *cuda = cuda_of(device);
    struct cuda_products *products = cuda->products;
    bool is_asked = products && !device_is_lost(device) && cuda_make_current(cuda) == STATUS_OK;
    if (!products)
        return;
    for (uint32_t i = 0; is_asked && i < products->n_plans; i++)
        drop(&products->cublas, &products->plans[i]);
    if (is_asked && products->handle)
        DESTROY(&products->cublas, cublasLtDestroy, products->handle);
    device_free(device, &products->workspace);
    free(products);
    cuda->products = NULL;
}

/* ---- plans ---- */

static int type_of(enum device_number number)
{
    static const int TYPES[] = {CUBLAS_TYPE_F32, CUBLAS_TYPE_F16, CUBLAS_TYPE_BF16};
    return TYPES[number];
}

static bool is_same_shape(const struct device_product *a, const struct device_product *b)
{
    return a->n_in == b->n_in && a->n_out == b->n_out && a->x_stride == b->x_stride &&
           a->y_stride == b->y_stride && a->operand == b->operand && a->result == b->result &&
           a->accumulates == b->accumulates;
}

static enum status describe(const struct cuda_products *products, struct plan *plan,
                            struct error *error)
{
    const struct device_product *shape = &plan->shape;
    const int transposed = CUBLAS_TRANSPOSED, operand = type_of(shape->operand);
    CUBLAS_TRY(products, error, cublasLtMatmulDescCreate, &plan->product, CUBLAS_COMPUTE_FLOAT,
               CUBLAS_TYPE_F32);
    CUBLAS_TRY(products, error, cublasLtMatmulDescSetAttribute, plan->product,
               CUBLAS_PRODUCT_LEFT_OP, &transposed, sizeof transposed);
    CUBLAS_TRY(products, error, cublasLtMatrixLayoutCreate, &plan->w, operand, shape->n_in,
               shape->n_out, shape->n_in);
    CUBLAS_TRY(products, error, cublasLtMatrixLayoutCreate, &plan->x, operand, shape->n_in,
               shape->n_tokens, (int64_t)shape->x_stride);
    CUBLAS_TRY(products, error, cublasLtMatrixLayoutCreate, &plan->y, type_of(shape->result),
               shape->n_out, shape->n_tokens, (int64_t)shape->y_stride);
    return STATUS_OK;
}

static enum status set_preference(const struct cuda_products *products, cublas_object preference,
                                  struct error *error)
{
    static const int ALIGNMENTS[] = {CUBLAS_PREFER_ALIGNMENT_A, CUBLAS_PREFER_ALIGNMENT_B,
                                     CUBLAS_PREFER_ALIGNMENT_C, CUBLAS_PREFER_ALIGNMENT_D};
    const uint64_t bytes = products->workspace.bytes;
    const uint32_t alignment = ALIGNMENT;
    CUBLAS_TRY(products, error, cublasLtMatmulPreferenceSetAttribute, preference,
               CUBLAS_PREFER_WORKSPACE, &bytes, sizeof bytes);
    for (int i = 0; i < 4; i++)
        CUBLAS_TRY(products, error, cublasLtMatmulPreferenceSetAttribute, preference, ALIGNMENTS[i],
                   &alignment, sizeof alignment);
    return STATUS_OK;
}

static enum status ask(const struct cuda_products *products, struct plan *plan,
                       cublas_object preference, bool *is_found, struct error *error)
{
    struct cublas_heuristic best;
    int n = 0;
    TRY(set_preference(products, preference, error));
    cublas_code code = products->cublas.cublasLtMatmulAlgoGetHeuristic(
        products->handle, plan->product, plan->w, plan->x, plan->y, plan->y, preference, 1, &best,
        &n);
    *is_found = code == CUBLAS_CODE_SUCCESS && n > 0 && best.state == CUBLAS_CODE_SUCCESS;
    if (*is_found)
        plan->algorithm = best.algorithm;
    return is_refusal(code) ? STATUS_OK : judge("cublasLtMatmulAlgoGetHeuristic", code, error);
}

static enum status choose(const struct cuda_products *products, struct plan *plan, bool *is_found,
                          struct error *error)
{
    cublas_object preference;
    CUBLAS_TRY(products, error, cublasLtMatmulPreferenceCreate, &preference);
    enum status status = ask(products, plan, preference, is_found, error);
    DESTROY(&products->cublas, cublasLtMatmulPreferenceDestroy, preference);
    return status;
}

/* Whether the algorithm supports the layouts' tokens within the workspace. */
static enum status check(const struct cuda_products *products, const struct plan *plan,
                         bool *is_taken, struct error *error)
{
    struct cublas_heuristic found;
    cublas_code code = products->cublas.cublasLtMatmulAlgoCheck(products->handle, plan->product,
                                                                plan->w, plan->x, plan->y, plan->y,
                                                                &plan->algorithm, &found);
    *is_taken = code == CUBLAS_CODE_SUCCESS && found.workspace_bytes <= products->workspace.bytes;
    return is_refusal(code) ? STATUS_OK : judge("cublasLtMatmulAlgoCheck", code, error);
}

static enum status run(const struct cuda_device *cuda, const struct plan *plan,
                       const struct device_product *product, struct error *error)
{
    const struct cuda_products *products = cuda->products;
    const float alpha = 1, beta = product->accumulates ? 1 : 0;
    CUBLAS_TRY(products, error, cublasLtMatmul, products->handle, plan->product, &alpha, product->w,
               plan->w, product->x, plan->x, &beta, product->y, plan->y, product->y, plan->y,
               &plan->algorithm, products->workspace.base, products->workspace.bytes,
               cuda->queues[DEVICE_COMPUTE].stream);
    return STATUS_OK;
}

static const struct plan *find(const struct cuda_products *products,
                               const struct device_product *product)
{
    const struct plan *best = NULL;
    for (uint32_t i = 0; i < products->n_plans; i++) {
        const struct plan *plan = &products->plans[i];
        if (is_same_shape(&plan->shape, product) && plan->shape.n_tokens >= product->n_tokens &&
            (!best || plan->shape.n_tokens < best->shape.n_tokens))
            best = plan;
    }
    return best;
}

static bool is_aligned(const struct device_product *product)
{
    const uintptr_t addresses = (uintptr_t)product->w | (uintptr_t)product->x |
                                (uintptr_t)product->y;
    return addresses % ALIGNMENT == 0;
}

/* Runs it once, because the library loads its kernels at their first launch. */
enum status cuda_plan_product(struct device *device, const struct device_product *product,
                              struct error *error)
{
    struct cuda_device *cuda = cuda_of(device);
    struct cuda_products *products = cuda->products;
    const struct plan *known = find(products, product);
    bool is_taken = false;
    if (!is_aligned(product) || (known && known->shape.n_tokens == product->n_tokens))
        return STATUS_OK;
    if (products->n_plans == PLANS_MAX)
        return error_set(error, STATUS_UNSUPPORTED, "device_math fast: over %d shapes of products",
                         PLANS_MAX);
    TRY(cuda_make_current(cuda));
    struct plan *plan = &products->plans[products->n_plans++];
    plan->shape = *product;
    TRY(describe(products, plan, error));
    TRY(choose(products, plan, &is_taken, error));
    if (is_taken)
        TRY(check(products, plan, &is_taken, error));
    if (is_taken)
        return run(cuda, plan, product, error);
    drop(&products->cublas, plan); /* our kernels compute it */
    products->n_plans--;
    return STATUS_OK;
}

static enum status set_tokens(const struct cuda_products *products, const struct plan *plan,
                              uint64_t n, struct error *error)
{
    CUBLAS_TRY(products, error, cublasLtMatrixLayoutSetAttribute, plan->x, CUBLAS_MATRIX_COLUMNS,
               &n, sizeof n);
    CUBLAS_TRY(products, error, cublasLtMatrixLayoutSetAttribute, plan->y, CUBLAS_MATRIX_COLUMNS,
               &n, sizeof n);
    return STATUS_OK;
}

static enum status multiply(const struct cuda_device *cuda, const struct plan *plan,
                            const struct device_product *product, bool *is_taken,
                            struct error *error)
{
    *is_taken = true;
    TRY(set_tokens(cuda->products, plan, product->n_tokens, error));
    if (plan->shape.n_tokens != product->n_tokens)
        TRY(check(cuda->products, plan, is_taken, error));
    return *is_taken ? run(cuda, plan, product, error) : STATUS_OK;
}

/* After a failure it is unknown what was enqueued: another computation could add the product twice. */
enum status cuda_product(struct device *device, const struct device_product *product)
{
    struct cuda_device *cuda = cuda_of(device);
    const struct plan *plan = find(cuda->products, product);
    struct error error = {""};
    bool is_taken;
    if (!plan || !is_aligned(product))
        return STATUS_UNSUPPORTED;
    TRY(cuda_make_current(cuda));
    if (multiply(cuda, plan, product, &is_taken, &error) == STATUS_OK)
        return is_taken ? STATUS_OK : STATUS_UNSUPPORTED;
    if (!atomic_exchange(&cuda->has_failed, true))
        log_error("%s: %s", cuda->name, error.text);
    return STATUS_DEVICE_LOST;
}
