#include "harness/engine.h"

#include "harness/checks.h"
#include "harness/formats.h"
#include "harness/threads.h"

#include <map>
#include <string.h>
#include <vector>

namespace simt
{
enum : uint64_t { UNSET = ~0ull };
enum : int32_t { BYTES_MAX = (1 << 20) - 1 };

/* The 8 bytes. */
struct state {
    uint16_t expected, pending;
    uint32_t phase : 1, is_set : 1, unused : 6;
    int32_t bytes : 24;
};
static_assert(sizeof(state) == 8, "");

static std::vector<struct tensor_copy> asked;

static struct state *state_of(uint32_t barrier)
{
    uint64_t bits;
    uint8_t *place = shared_pointer(barrier, 8);
    memcpy(&bits, place, sizeof bits);
    if (bits == UNSET)
        report("the barrier at %u of shared memory was never set", barrier);
    return (struct state *)(void *)place;
}

void engine_init(uint32_t barrier, uint32_t n_arrivals)
{
    struct state state = {};
    if (n_arrivals == 0 || n_arrivals > 1024)
        report("a barrier of %u arrivals", n_arrivals);
    state.expected = state.pending = (uint16_t)n_arrivals;
    memcpy(shared_pointer(barrier, 8), &state, sizeof state);
    release(state_of(barrier));
}

static void end_phase(struct state *state)
{
    progress++;
    if (state->pending || state->bytes)
        return;
    state->pending = state->expected;
    state->phase ^= 1;
}

void engine_arrive(uint32_t barrier, uint32_t bytes)
{
    struct state *state = state_of(barrier);
    release(state);
    if (state->pending == 0)
        report("more arrivals at the barrier at %u than the %u it is of", barrier, state->expected);
    if (state->bytes + (int64_t)bytes > BYTES_MAX)
        report("%u bytes expected at the barrier at %u: it counts to %d", bytes, barrier,
               BYTES_MAX);
    state->pending--;
    state->bytes += (int32_t)bytes;
    end_phase(state);
}

void engine_complete(uint32_t barrier, uint32_t bytes)
{
    struct state *state = state_of(barrier);
    release(state);
    state->bytes -= (int32_t)bytes; /* may come before they are expected */
    end_phase(state);
}

bool engine_look(uint32_t barrier, uint32_t parity)
{
    if (state_of(barrier)->phase == (parity & 1)) {
        spin("mbarrier_wait", barrier);
        return false;
    }
    acquire(state_of(barrier));
    return true;
}

void engine_ask(const struct tensor_copy &copy)
{
    for (const struct tensor_copy &other : asked)
        if (other.cta == copy.cta && other.number != copy.number)
            report("CTA %u ended with a tensor copy that it never waited for", other.number);
    (void)state_of(copy.barrier);
    asked.push_back(copy);
    asked.back().cta = current->cta;
    asked.back().number = current->cta->number;
}

bool engine_take(uint32_t barrier, struct tensor_copy *copy_out)
{
    for (size_t i = 0; i < asked.size(); i++) {
        const struct tensor_copy copy = asked[i];
        if (copy.cta != current->cta || copy.number != current->cta->number ||
            copy.barrier != barrier)
            continue;
        asked.erase(asked.begin() + (long)i);
        *copy_out = copy;
        return true;
    }
    return false;
}

uint32_t engine_bytes(const struct tensor_shape &shape)
{
    return shape.box[0] * shape.box[1] * shape.box[2] * shape.box[3] * 2;
}

/* ---- products of four warps ---- */

enum : unsigned { ROWS = 16, DEPTH = 16 };

struct product_queue {
    uint32_t number; /* of the CTA */
    std::vector<struct warps_product> open;
    std::vector<std::vector<struct warps_product>> groups;
};
static std::map<const struct thread *, struct product_queue> queues;

/* Element [mn][k], in panels of 64 k, or, transposed, of 64 mn. */
static float element(uint64_t operand, unsigned mn, unsigned k, bool is_transposed)
{
    const uint32_t address = (uint32_t)(operand & 0x3fff) << 4;
    const uint32_t panel = (uint32_t)(operand >> 16 & 0x3fff) << 4;
    const uint32_t rows = (uint32_t)(operand >> 32 & 0x3fff) << 4;
    const uint32_t at = address + (is_transposed
                                       ? mn / 64 * panel + k / 8 * rows + k % 8 * 128 + mn % 64 * 2
                                       : mn / 8 * rows + mn % 8 * 128 + k * 2);
    uint16_t bits;
    memcpy(&bits, shared_pointer(at ^ (at >> 7 & 7) << 4, 2), sizeof bits);
    return bf16_value(bits);
}

static void load_rows(float (&a)[DEPTH][ROWS], void **arguments)
{
    const auto *first = (const struct warps_product *)arguments[0];
    for (unsigned row = 0; !first->a && row < ROWS; row++)
        for (unsigned k = 0; k < DEPTH; k++)
            a[k][row] = element(first->a_operand, current->warp % 4 * ROWS + row, k, false);
    for (unsigned lane = 0; first->a && lane < WARP_LANES; lane++)
        for (unsigned i = 0; i < 8; i++) {
            const uint32_t word = ((const struct warps_product *)arguments[lane])->a[i / 2];
            a[lane % 4 * 2 + i % 2 + i / 4 * 8][lane / 4 + i / 2 % 2 * 8] = bf16_value(
                (uint16_t)(word >> i % 2 * 16));
        }
}

/* Column after column, on the stack: warps that nothing orders multiply at the same time. */
static void multiply_all(void **arguments, uint32_t)
{
    const auto *first = (const struct warps_product *)arguments[0];
    const unsigned n_columns = first->n_columns;
    counts.products++;
    for (unsigned lane = 1; lane < WARP_LANES; lane++) {
        const auto *product = (const struct warps_product *)arguments[lane];
        if (product->a_operand != first->a_operand || product->b_operand != first->b_operand ||
            product->accumulates != first->accumulates || !product->a != !first->a ||
            product->n_columns != n_columns)
            report("lane %u has another operand in a product of four warps than lane 0", lane);
    }
    float a[DEPTH][ROWS];
    load_rows(a, arguments);
    for (unsigned n = 0; n < n_columns; n++) {
        float sums[ROWS] = {};
        for (unsigned k = 0; k < DEPTH; k++) {
            const float b = element(first->b_operand, n, k, first->is_transposed);
            for (unsigned m = 0; m < ROWS; m++)
                sums[m] += a[k][m] * b;
        }
        for (unsigned m = 0; m < ROWS; m++) {
            float &d = ((const struct warps_product *)arguments[m % 8 * 4 + n % 8 / 2])
                           ->d[n / 8 * 4 + m / 8 * 2 + n % 2];
            d = (first->accumulates ? d : 0.f) + sums[m];
        }
    }
}

static void make(struct warps_product product)
{
    collective(~0u, "wgmma", &product, multiply_all);
}

static struct product_queue &queue_of_thread()
{
    struct product_queue &queue = queues[current];
    if (queue.number != current->cta->number && (!queue.open.empty() || !queue.groups.empty()))
        report("CTA %u ended with products that it never waited for", queue.number);
    queue.number = current->cta->number;
    return queue;
}

void products_ask(const struct warps_product &product)
{
    if (current->cta->n_threads % 128 || product.b_operand >> 62 != 1)
        report("a product of four warps: %u threads, operands swizzled by %u",
               current->cta->n_threads, (unsigned)(product.b_operand >> 62));
    if (!are_copies_late())
        return make(product);
    for (unsigned i = 0; !product.accumulates && i < product.n_columns / 2; i++)
        product.d[i] = float_of(0x7fffffff);
    queue_of_thread().open.push_back(product);
}

void products_commit()
{
    struct product_queue &queue = queue_of_thread();
    queue.groups.push_back(queue.open);
    queue.open.clear();
}

void products_wait(unsigned n_groups)
{
    struct product_queue &queue = queue_of_thread();
    while (queue.groups.size() > n_groups) {
        const std::vector<struct warps_product> group = queue.groups.front();
        queue.groups.erase(queue.groups.begin());
        for (const struct warps_product &product : group)
            make(product);
    }
}
} // namespace simt
