/*
 * Host bytes of copies in flight: until the host has waited for a copy its bytes are read-only (source) or inaccessible
 * (destination) to the client, and its touch of them is named. One page is the unit of arming; a first innocent touch
 * disarms that page.
 */
#include "double.h"

#include <csignal>
#include <cstring>
#include <sys/mman.h>
#include <ucontext.h>

struct Guard {
    uint64_t begin, end;
    bool write; /* the copy writes them */
    OperationRef operation;
};
static std::vector<Guard> guards;
static std::set<uint64_t> opened_pages; /* left open until their guards change */
static thread_local int in_library;
static struct sigaction previous;

InLibrary::InLibrary()
{
    in_library++;
}

InLibrary::~InLibrary()
{
    in_library--;
}

bool is_in_library()
{
    return in_library > 0;
}

static uint64_t page_of(uint64_t a)
{
    return a / PAGE * PAGE;
}

static int protection(uint64_t page)
{
    int prot = PROT_READ | PROT_WRITE;
    if (!opened_pages.count(page))
        for (auto &g : guards)
            if (g.begin < page + PAGE && g.end > page)
                prot = std::min(prot, g.write ? PROT_NONE : PROT_READ);
    return prot;
}

static void protect(uint64_t begin, uint64_t end)
{
    for (uint64_t page = page_of(begin), stop; page < end; page = stop) {
        int prot = protection(page);
        for (stop = page + PAGE; stop < end && protection(stop) == prot; stop += PAGE) {
        }
        mprotect(reinterpret_cast<void *>(page), stop - page, prot);
    }
}

static void arm(uint64_t begin, uint64_t end)
{
    for (uint64_t page = page_of(begin); page < end; page += PAGE)
        opened_pages.erase(page);
    protect(begin, end);
}

static void add_guard(uint64_t a, size_t n, bool write, const OperationRef &operation)
{
    Allocation *m = find(a);
    if (!n || !m || m->kind != Allocation::pinned)
        return;
    bool needed = false; /* by something in flight */
    for (auto &g : guards)
        needed |= g.begin < a + n && g.end > a && !g.operation->done;
    if (write && !needed)
        memset(m->alias + (a - m->base), 0xff, n); /* undefined until complete: poison */
    guards.push_back({a, a + n, write, operation});
    arm(a, a + n);
}

void guard_host(const OperationRef &operation)
{
    if (operation->work.kind != Work::copy)
        return;
    add_guard(operation->work.from, operation->work.bytes, false, operation);
    add_guard(operation->work.to, operation->work.bytes, true, operation);
}

template <class F> static std::vector<Guard> take_if(F condition)
{
    std::vector<Guard> gone, left;
    for (auto &g : guards)
        (condition(g) ? gone : left).push_back(g);
    guards = left;
    return gone;
}

void guards_sweep()
{
    for (auto &g : take_if([](const Guard &g) { return host_knows(*g.operation); }))
        arm(g.begin, g.end);
}

void guards_forget(uint64_t begin, uint64_t end)
{
    take_if([&](const Guard &g) { return g.begin >= begin && g.begin < end; });
}

/* True: the page is open now, and the access may go on. */
static bool judge_pinned(uint64_t a, bool write)
{
    bool guarded = false, raced = false;
    for (auto &g : guards) {
        if (a < page_of(g.begin) || a >= page_of(g.end + PAGE - 1))
            continue;
        guarded = true;
        if (g.begin <= a && a < g.end && (g.write || write)) {
            report("host race", "the host %s %s while %s %s it: nothing has waited for that copy",
                   write ? "writes" : "reads", explain(a).c_str(), g.operation->what().c_str(),
                   g.write ? "writes" : "reads");
            raced = true;
            break;
        }
    }
    if (guarded && !raced)
        note(
            "a page holds bytes of a copy in flight and bytes in use, and is not guarded until its "
            "copies change: %s",
            explain(a).c_str());
    Allocation *m = find(a);
    if (!guarded && !(m && m->kind == Allocation::pinned))
        return false;
    opened_pages.insert(page_of(a));
    protect(page_of(a), page_of(a) + 1);
    return true;
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
    uint64_t a = reinterpret_cast<uint64_t>(info->si_addr);
    bool write = static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_ERR] & 2;
    if (!is_in_library()) {
        std::lock_guard<std::recursive_mutex> hold(big_lock);
        InLibrary in;
        if (in_device_space(a)) {
            report("host access", "the host %s device memory: %s", write ? "writes" : "reads",
                   explain(a).c_str());
            fflush(nullptr);
            _exit(finish(97));
        }
        if (judge_pinned(a, write))
            return;
        if (find_freed(a))
            report("host access", "the host %s freed memory: %s", write ? "writes" : "reads",
                   explain(a).c_str());
    }
    if (previous.sa_flags & SA_SIGINFO && previous.sa_sigaction)
        return previous.sa_sigaction(sig, info, context);
    sigaction(SIGSEGV, &previous, nullptr); /* and again, for the previous owner */
}

void guards_start()
{
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, &previous);
}
