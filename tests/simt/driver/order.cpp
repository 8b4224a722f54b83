/*
 * Operations, who must precede whom, and when each runs.
 *
 * Every stream operation, record and wait is a node of one graph; an edge is an order that the client asked for. The scheduler
 * may run any node whose predecessors are complete, so what it does is always legal, and what the client forgot to ask
 * for is sooner or later done the other way round. DOUBLE_MODE: early (at the call), late (only when somebody waits, or
 * has asked several times), random. DOUBLE_SEED picks among the legal choices.
 */
#include "double.h"

#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <unistd.h>

cuda_code sticky = CUDA_SUCCESS;
size_t sticky_operation;
size_t n_operations, n_kernels;
static std::vector<OperationRef> pending; /* in the order of the calls */
static std::vector<std::string> lane_names;
static std::vector<uint32_t> lane_last;
static Clock host;
enum Mode { EARLY, LATE, RANDOM };

static Mode read_mode()
{
    const char *s = getenv("DOUBLE_MODE");
    if (!s || !strcmp(s, "random"))
        return RANDOM;
    if (!strcmp(s, "early"))
        return EARLY;
    if (!strcmp(s, "late"))
        return LATE;
    unsupported("DOUBLE_MODE=%s: early, late or random", s);
}

static Mode mode()
{
    static Mode m = read_mode();
    return m;
}

static uint32_t draw(uint32_t below)
{
    static uint64_t state = static_cast<uint64_t>(setting("DOUBLE_SEED", 1)) *
                                0x9e3779b97f4a7c15ull +
                            1;
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<uint32_t>(state >> 33) % below;
}

/* ---- clocks ---- */

static void join(Clock &c, const Clock &other)
{
    if (c.size() < other.size())
        c.resize(other.size());
    for (size_t i = 0; i < other.size(); i++)
        c[i] = std::max(c[i], other[i]);
}

static void join(Clock &c, const Operation &operation)
{
    join(c, operation.clock);
    if (c.size() <= operation.lane)
        c.resize(operation.lane + 1);
    c[operation.lane] = std::max(c[operation.lane], operation.number);
}

static bool knows(const Clock &c, const Operation &operation)
{
    return c.size() > operation.lane && c[operation.lane] >= operation.number;
}

bool ordered(const Operation &a, const Operation &b)
{
    return knows(b.clock, a);
}

bool host_knows(const Operation &operation)
{
    return knows(host, operation);
}

void context_fails(cuda_code code, const OperationRef &operation)
{
    if (sticky)
        return;
    sticky = code;
    sticky_operation = operation ? operation->id : 0;
}

std::string Operation::what() const
{
    std::string s = work.call;
    if (work.kind == Work::kernel)
        s += std::string("(") + work.function->info.name + ")";
    return s + " #" + std::to_string(number) + " on " + lane_name;
}

uint32_t new_lane(const std::string &name)
{
    lane_names.push_back(name);
    lane_last.push_back(0);
    return static_cast<uint32_t>(lane_names.size()) - 1;
}

/* ---- what is enqueued ---- */

/* DOUBLE_HANG="stream 2:5" or "2:5": the 5th operation of stream 2. */
static bool is_told_to_hang(const Operation &operation)
{
    static const char *told = getenv("DOUBLE_HANG");
    if (!told)
        return false;
    std::string s = told;
    if (s.rfind("stream ", 0) != 0)
        s = "stream " + s;
    return s == operation.lane_name + ":" + std::to_string(operation.number);
}

OperationRef enqueue(uint32_t lane, std::vector<OperationRef> before, Work work)
{
    auto operation = std::make_shared<Operation>();
    operation->work = std::move(work);
    operation->lane = lane;
    operation->lane_name = lane_names[lane];
    operation->number = ++lane_last[lane];
    operation->id = static_cast<uint32_t>(++n_operations);
    operation->clock = host;
    for (auto &b : before)
        if (b) {
            join(operation->clock, *b);
            if (!b->done)
                operation->before.push_back(b);
        }
    operation->polls = mode() == LATE ? draw(4) : 0;
    operation->hung = is_told_to_hang(*operation);
    if (operation->hung)
        fprintf(stderr, "cuda-double: %s never completes (DOUBLE_HANG)\n",
                operation->what().c_str());
    guard_host(operation);
    pending.push_back(operation);
    if (mode() == EARLY)
        drain();
    return operation;
}

static bool ready(const OperationRef &operation)
{
    if (operation->running || operation->hung)
        return false;
    for (auto &b : operation->before)
        if (!b->done)
            return false;
    return true;
}

static void execute(const OperationRef &operation)
{
    switch (operation->work.kind) {
    case Work::nothing:
        break;
    case Work::copy:
        execute_copy(operation);
        break;
    case Work::fill:
        execute_fill(operation);
        break;
    case Work::kernel:
        n_kernels++;
        bool late = mode() == EARLY ? false : mode() == LATE ? true : draw(2);
        execute_kernel(operation, late, draw(2) ? draw(1u << 30) + 1 : 0);
        break;
    }
}

static void run(const OperationRef &operation)
{
    operation->running = true;
    execute(operation);
    operation->running = false;
    operation->done = true;
    operation->before.clear();
    operation->work.parameters = {};
    for (size_t i = 0; i < pending.size(); i++)
        if (pending[i] == operation) {
            pending.erase(pending.begin() + static_cast<long>(i));
            break;
        }
}

/* Runs one ready operation among set (null: among all); false when there is none. */
static bool step(const std::set<Operation *> *set)
{
    if (sticky)
        return false;
    std::vector<OperationRef> choice;
    for (auto &operation : pending)
        if ((!set || set->count(operation.get())) && ready(operation))
            choice.push_back(operation);
    if (choice.empty())
        return false;
    run(choice[draw(static_cast<uint32_t>(choice.size()))]);
    return true;
}

void run_some()
{
    if (mode() == EARLY)
        drain();
    if (mode() == RANDOM)
        while (draw(3) == 0 && step(nullptr)) {
        }
}

void drain()
{
    while (step(nullptr)) {
    }
}

/* With DOUBLE_TICK_MS, work goes on while the client makes no call. */
static void *tick(void *)
{
    for (size_t seen = 0;;) {
        usleep(static_cast<useconds_t>(setting("DOUBLE_TICK_MS", 1)) * 1000);
        std::lock_guard<std::recursive_mutex> hold(big_lock);
        InLibrary in;
        if (n_calls == seen && !ended)
            step(nullptr);
        seen = n_calls;
    }
}

void start_ticking()
{
    pthread_t thread;
    if (getenv("DOUBLE_TICK_MS") && !pthread_create(&thread, nullptr, tick, nullptr))
        pthread_detach(thread);
}

/* ---- what the host sees ---- */

static void observed(const OperationRef &operation)
{
    join(host, *operation);
    guards_sweep();
}

static std::set<Operation *> ancestors(const OperationRef &operation)
{
    std::set<Operation *> seen;
    std::vector<Operation *> todo = {operation.get()};
    while (!todo.empty()) {
        Operation *o = todo.back();
        todo.pop_back();
        if (!o->done && seen.insert(o).second)
            for (auto &b : o->before)
                todo.push_back(b.get());
    }
    return seen;
}

bool poll(const OperationRef &operation)
{
    if (mode() == RANDOM && !operation->done)
        step(nullptr);
    if (mode() == LATE && !operation->done) {
        if (operation->polls) {
            operation->polls--;
            return false;
        }
        auto set = ancestors(operation);
        while (!operation->done && step(&set)) {
        }
    }
    if (operation->done && !sticky && !host_knows(*operation))
        observed(operation);
    return operation->done;
}

bool wait_for(const OperationRef &operation)
{
    auto set = ancestors(operation);
    bool said = false;
    while (!operation->done && !sticky)
        if (!step(&set) && !sticky && !operation->done) {
            if (!said)
                fprintf(stderr, "cuda-double: this call waits for ever for %s\n",
                        operation->what().c_str());
            said = true;
            big_lock.unlock();
            usleep(1000);
            big_lock.lock();
        }
    if (sticky)
        return false;
    observed(operation);
    return true;
}
