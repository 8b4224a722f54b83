// simt_rt.cpp - fiber scheduler; compiled WITHOUT a sanitizer even when the kernels use one
// (-DSIMT_TSAN then)
#include "kernels/cuda/hardware.cuh"
#ifdef SIMT_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#include <vector>
__asm__(".text\n.globl simt_switch\nsimt_switch:\n pushq %rbp\n pushq %rbx\n pushq %r12\n pushq "
        "%r13\n pushq %r14\n pushq %r15\n"
        " movq %rsp,(%rdi)\n movq %rsi,%rsp\n popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq "
        "%rbx\n popq %rbp\n ret\n");
#include <sys/mman.h>
namespace simt
{
void __attribute__((weak)) hopper_reset();
bool __attribute__((weak)) hopper_idle();
Cta cta;
Fiber *cur;
uint64_t n_switch, n_mma, n_bar, n_coll;
int late_copies = 1;
unsigned seed = 0;
uint64_t progress;
NOSAN void yield()
{
    Fiber *me = cur;
    n_switch++;
#ifdef SIMT_TSAN
    __tsan_switch_to_fiber(cta.sched_tsan, 1);
#endif
    simt_switch(&me->sp, cta.sched_sp);
}
#ifdef SIMT_TSAN
#define ACQ(x) __tsan_acquire(x)
#define REL(x) __tsan_release(x)
#else
#define ACQ(x) (void)0
#define REL(x) (void)0
#endif
NOSAN static void entry()
{
    ACQ(&cta);
    cta.body(cta.ctx);
    REL(&cta);
    cur->state = DONE;
    cta.live--;
    progress++;
    if (cur->head != cur->tail) {
        fprintf(stderr, "simt: thread %d exits with cp.async never waited for\n", cur->id);
        abort();
    }
    yield();
    abort();
}
NOSAN void coll(uint32_t mask, const char *op, void *arg, void (*fn)(void **, uint32_t))
{
    Warp &w = cta.w[cur->warp];
    Coll *c = 0;
    n_coll++;
    for (auto &k : w.c)
        if (k.arrived && k.mask == mask)
            c = &k;
    if (!c)
        for (auto &k : w.c)
            if (!k.arrived) {
                c = &k;
                c->mask = mask;
                c->op = op;
                break;
            }
    if (c->op != op && strcmp(c->op, op)) {
        fprintf(stderr, "simt: divergent warp %d: lane %d at %s, others at %s\n", cur->warp,
                cur->lane, op, c->op);
        abort();
    }
    c->arg[cur->lane] = arg;
    c->arrived |= 1u << cur->lane;
    if (c->arrived == mask) {
        void *a[32];
        memcpy(a, c->arg, sizeof a);
        c->arrived = 0;
        fn(a, mask);
        progress++;
        for (int l = 0; l < 32; l++)
            if (mask >> l & 1)
                cta.f[cur->warp * 32 + l].state = READY;
    } else {
        cur->state = BLOCKED;
        cur->where = op;
        yield();
    }
}
NOSAN void bar_sync(int id, int count, const char *where, int line)
{
    Bar &b = cta.bar[id];
    n_bar++;
    if (count < 0)
        count = cta.live;
#ifdef SIMT_TSAN
    __tsan_release(&b);
#endif
    b.arrived++;
    if (b.arrived == count) {
        b.arrived = 0;
        progress++;
        for (int i = 0; i < b.nwait; i++)
            b.wait[i]->state = READY;
        b.nwait = 0;
    } else {
        b.wait[b.nwait++] = cur;
        cur->state = BLOCKED;
        cur->where = where;
        cur->line = line;
        yield();
    }
#ifdef SIMT_TSAN
    __tsan_acquire(&b);
#endif
}
NOSAN void launch_c(dim3 g, dim3 b, size_t smem, void (*body)(void *), void *ctx)
{
    const size_t SS = 256 << 10;
    static std::vector<uint8_t *> stacks;
    int n = b.x * b.y * b.z;
    unsigned rng = seed * 2654435761u + 1;
    while ((int)stacks.size() < n)
        stacks.push_back((uint8_t *)mmap(0, SS, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    cta.bdim = b;
    cta.gdim = g;
    cta.nthr = n;
    cta.body = body;
    cta.ctx = ctx;
    static std::vector<Fiber> fib;
    static std::vector<Warp> wrp;
    fib.resize(n);
    wrp.resize((n + 31) / 32);
    cta.f = fib.data();
    cta.w = wrp.data();
    cta.smem_bytes = smem;
    uint8_t *sm = (uint8_t *)aligned_alloc(1024, (smem + 1023) / 1024 * 1024 + 1024);
    cta.smem = sm;
#ifdef SIMT_TSAN
    cta.sched_tsan = __tsan_get_current_fiber();
#endif
    for (unsigned z = 0; z < g.z; z++)
        for (unsigned y = 0; y < g.y; y++)
            for (unsigned x = 0; x < g.x; x++) {
                cta.bid = dim3(x, y, z);
                cta.live = n;
                ACQ(&cta);
                REL(&cta);
                if (hopper_reset)
                    hopper_reset();
                memset(cta.w, 0, sizeof(Warp) * wrp.size());
                for (auto &k : cta.bar)
                    k.arrived = k.nwait = 0;
                for (size_t i = 0; i < smem; i++)
                    ((volatile uint8_t *)sm)[i] = 0xff; // poison: NaN in every format
                std::vector<int> order(n);
                for (int i = 0; i < n; i++) {
                    Fiber &f = cta.f[i];
                    order[i] = i;
                    f.id = i;
                    f.lane = i & 31;
                    f.warp = i >> 5;
                    f.tid = dim3(i % b.x, i / b.x % b.y, i / b.x / b.y);
                    f.state = READY;
                    f.head = f.tail = f.ghead = f.gtail = 0;
                    f.where = 0;
                    f.stack = stacks[i];
                    void **sp = (void **)(f.stack + SS - 64);
                    *--sp = 0;
                    *--sp = (void *)entry;
                    for (int k = 0; k < 6; k++)
                        *--sp = 0;
                    f.sp = sp;
#ifdef SIMT_TSAN
                    static std::vector<void *> tf;
                    if ((int)tf.size() <= i)
                        tf.push_back(__tsan_create_fiber(0));
                    f.tsan = tf[i];
#endif
                }
                while (cta.live) {
                    uint64_t p0 = progress;
                    if (seed)
                        for (int i = n - 1; i > 0; i--) {
                            rng = rng * 1664525u + 1013904223u;
                            std::swap(order[i], order[(rng >> 8) % (i + 1)]);
                        }
                    for (int i : order) {
                        Fiber &f = cta.f[i];
                        if (f.state != READY)
                            continue;
                        cur = &f;
#ifdef SIMT_TSAN
                        __tsan_switch_to_fiber(f.tsan, 1);
#endif
                        simt_switch(&cta.sched_sp, f.sp);
                    }
                    if (cta.live && progress == p0 && hopper_idle && hopper_idle())
                        continue;
                    if (cta.live && progress == p0) {
                        fprintf(stderr, "simt: deadlock in block %u,%u,%u:", x, y, z);
                        for (auto &f : fib)
                            if (f.state != DONE) {
                                fprintf(stderr, " t%d at %s:%d", f.id, f.where ? f.where : "?",
                                        f.line);
                            }
                        fprintf(stderr, "\n");
                        abort();
                    }
                }
            }
    ACQ(&cta);
    free(sm);
}
} // namespace simt
