#include "harness/engine.h"

#include "harness/checks.h"
#include "harness/threads.h"

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
} // namespace simt
