/*
 * Runs kernels for the double, in a process of its own: here device addresses are real memory and the client's heap does not
 * exist, so a host pointer that reaches a kernel faults instead of working.
 */
#include "image.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <map>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

static const int sock = 3;
static const Image *image;
static uint8_t *shadow;   /* one byte of marks for each byte of device address space */
static uint8_t *page_hit; /* one byte a page */
static std::vector<uint32_t> pages;

/* Allocations, by base: the harness is told when the image is there. */
static std::map<uint64_t, uint64_t> allocations;

static void send_all(const void *p, size_t n)
{
    for (auto b = static_cast<const char *>(p); n;) {
        ssize_t k = send(sock, b, n, MSG_NOSIGNAL);
        if (k <= 0)
            _exit(0);
        b += k;
        n -= static_cast<size_t>(k);
    }
}

static void receive_all(void *p, size_t n)
{
    for (auto b = static_cast<char *>(p); n;) {
        ssize_t k = recv(sock, b, n, 0);
        if (k <= 0)
            _exit(0); /* the client is gone */
        b += k;
        n -= static_cast<size_t>(k);
    }
}

/* An access of a kernel. Whether CTAs of one launch may meet there is the harness's business. */
static void seen(const volatile void *p, size_t n, uint8_t kinds)
{
    uint64_t at = reinterpret_cast<uint64_t>(p) - DEVICE_BASE;
    if (at >= SPACE_END - DEVICE_BASE || n == 0)
        return; /* shared memory, stacks, constants */
    for (uint64_t page = at / PAGE; page <= (at + n - 1) / PAGE; page++)
        if (!page_hit[page]) {
            page_hit[page] = 1;
            pages.push_back(static_cast<uint32_t>(page));
        }
    for (uint64_t x = at; x < at + n; x++)
        shadow[x] |= kinds;
}

/* ---- what it is asked ---- */

static void add_runs(std::vector<AccessRun> &out, uint8_t kind)
{
    uint64_t begin = 0, end = 0;
    auto close_run = [&] {
        if (begin != end)
            out.push_back({DEVICE_BASE + begin, DEVICE_BASE + end, kind == SEEN_WRITE, 0});
    };
    for (uint32_t page : pages)
        for (uint64_t a = page * PAGE; a < (page + 1) * PAGE; a++)
            if (shadow[a] & kind) {
                if (a != end || begin == end) {
                    close_run();
                    begin = a;
                }
                end = a + 1;
            }
    close_run();
}

static std::vector<AccessRun> take_runs()
{
    std::vector<AccessRun> runs;
    std::sort(pages.begin(), pages.end());
    add_runs(runs, SEEN_READ);
    add_runs(runs, SEEN_WRITE);
    for (uint32_t page : pages) {
        memset(shadow + page * PAGE, 0, PAGE);
        page_hit[page] = 0;
    }
    pages.clear();
    return runs;
}

static void on_signal(int sig, siginfo_t *info, void *)
{
    Reply r = {};
    r.outcome = sig == SIGABRT ? Outcome::aborted : Outcome::bad_address;
    r.address = sig == SIGABRT ? 0 : reinterpret_cast<uint64_t>(info->si_addr);
    send_all(&r, sizeof r);
    _exit(1);
}

static uint8_t *reserve(uint64_t at, size_t n, int prot, int flags)
{
    void *p = mmap(reinterpret_cast<void *>(at), n, prot,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
    if (p == MAP_FAILED) {
        perror("double-executor: mmap");
        _exit(2);
    }
    return static_cast<uint8_t *>(p);
}

static Reply map(const Request &request, const std::string &path)
{
    Reply reply = {};
    int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    void *p = fd < 0 ? MAP_FAILED
                     : mmap(reinterpret_cast<void *>(request.address), request.bytes,
                            PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                            static_cast<off_t>(request.offset));
    reply.outcome = p == MAP_FAILED ? Outcome::failed : Outcome::ok;
    if (p != MAP_FAILED && request.length > 0) {
        allocations[request.base] = request.length;
        if (image)
            image->add(reinterpret_cast<void *>(request.base), request.length);
    }
    if (fd >= 0)
        close(fd);
    return reply;
}

static void unmap(const Request &request)
{
    auto it = allocations.lower_bound(request.address);
    if (it != allocations.end() && it->first < request.address + request.bytes) {
        if (image)
            image->remove(reinterpret_cast<void *>(it->first));
        allocations.erase(it);
    }
    reserve(request.address, request.bytes, PROT_NONE, MAP_FIXED);
}

static void load(const std::string &path)
{
    Reply reply = {};
    void *h = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    image = h ? static_cast<const Image *>(dlsym(h, "kvferry_double_image")) : nullptr;
    if (!image || image->magic != IMAGE_MAGIC) {
        fprintf(stderr, "double-executor: %s: %s\n", path.c_str(), h ? "no image" : dlerror());
        reply.outcome = Outcome::failed;
        send_all(&reply, sizeof reply);
        return;
    }
    image->observe(seen);
    for (auto &a : allocations)
        image->add(reinterpret_cast<void *>(a.first), a.second);
    reply.count = image->n_kernels;
    send_all(&reply, sizeof reply);
    send_all(image->info, image->n_kernels * sizeof(KernelInfo));
}

static void run(const Request &request, const void *parameters)
{
    image->run(request.kernel, request.shape, parameters, request.late_copies, request.seed);
    std::vector<AccessRun> runs = take_runs();
    Reply reply = {};
    reply.count = static_cast<uint32_t>(runs.size());
    send_all(&reply, sizeof reply);
    send_all(runs.data(), runs.size() * sizeof(AccessRun));
}

static void start()
{
    prctl(PR_SET_NAME, "double-executor");
    size_t span = SPACE_END - DEVICE_BASE;
    reserve(DEVICE_BASE, span, PROT_NONE, MAP_FIXED_NOREPLACE);
    shadow = reserve(0, span, PROT_READ | PROT_WRITE, 0);
    page_hit = reserve(0, span / PAGE, PROT_READ | PROT_WRITE, 0);
    stack_t other = {reserve(0, 65536, PROT_READ | PROT_WRITE, 0), 0, 65536};
    sigaltstack(&other, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
        sigaction(s, &action, nullptr);
}

int main()
{
    start();
    for (;;) {
        Request request;
        receive_all(&request, sizeof request);
        std::vector<uint8_t> parameters(request.parameter_bytes + 1);
        std::string path(request.path_bytes, 0);
        receive_all(parameters.data(), request.parameter_bytes);
        receive_all(&path[0], path.size());
        Reply reply = {};
        switch (request.order) {
        case Order::load:
            load(path);
            continue;
        case Order::run:
            run(request, parameters.data());
            continue;
        case Order::map:
            reply = map(request, path);
            break;
        case Order::unmap:
            unmap(request);
            break;
        }
        send_all(&reply, sizeof reply);
    }
}
