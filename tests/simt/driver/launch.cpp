/* The library's side of the executor: maps, the image, kernels; what a kernel touched and whether it may. */
#include "double.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static int sock = -1;
static pid_t child;

/* A file beside the library. */
static std::string beside(const char *name)
{
    Dl_info where;
    dladdr(reinterpret_cast<void *>(executor_start), &where);
    std::string path = where.dli_fname;
    size_t slash = path.rfind('/');
    return (slash == std::string::npos ? "." : path.substr(0, slash)) + "/" + name;
}

bool executor_start()
{
    std::string path = beside("double-executor");
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return false;
    char name[] = "double-executor", *argv[] = {name, nullptr};
    child = fork();
    if (child == 0) {
        if (pair[1] == 3 || dup2(pair[1], 3) != 3)
            _exit(125);
        unsetenv("LD_PRELOAD");
        execv(path.c_str(), argv);
        fprintf(stderr, "cuda-double: cannot start %s\n", path.c_str());
        _exit(127);
    }
    close(pair[1]);
    sock = pair[0];
    timeval limit = {setting("DOUBLE_KERNEL_SECONDS", 120), 0}; /* a kernel that never ends */
    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return child > 0;
}

static bool send_all(const void *p, size_t n)
{
    for (auto b = static_cast<const char *>(p); n;) {
        ssize_t k = send(sock, b, n, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        b += k;
        n -= static_cast<size_t>(k);
    }
    return true;
}

static bool receive_all(void *p, size_t n)
{
    for (auto b = static_cast<char *>(p); n;) {
        ssize_t k = recv(sock, b, n, 0);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        b += k;
        n -= static_cast<size_t>(k);
    }
    return true;
}

static bool ask(Request request, const std::vector<uint8_t> &parameters, const std::string &path,
                Reply *reply)
{
    request.parameter_bytes = static_cast<uint32_t>(parameters.size());
    request.path_bytes = static_cast<uint32_t>(path.size());
    return send_all(&request, sizeof request) && send_all(parameters.data(), parameters.size()) &&
           send_all(path.data(), path.size()) && receive_all(reply, sizeof *reply);
}

bool executor_map(const Allocation &a, const std::string &path, uint64_t offset)
{
    Request request = {};
    Reply reply;
    request.order = Order::map;
    request.address = a.map_base;
    request.bytes = a.map_bytes;
    request.offset = offset;
    request.base = a.base;
    request.length = a.kind == Allocation::pinned ? 0 : a.bytes;
    return ask(request, {}, path, &reply) && reply.outcome == Outcome::ok;
}

bool executor_unmap(uint64_t address, uint64_t bytes)
{
    Request request = {};
    Reply reply;
    request.order = Order::unmap;
    request.address = address;
    request.bytes = bytes;
    return ask(request, {}, "", &reply) && reply.outcome == Outcome::ok;
}

bool executor_load(std::vector<KernelInfo> *kernels)
{
    Request request = {};
    Reply reply;
    request.order = Order::load;
    if (!ask(request, {}, beside("double-image.so"), &reply) || reply.outcome != Outcome::ok)
        return false;
    kernels->resize(reply.count);
    return receive_all(kernels->data(), reply.count * sizeof(KernelInfo));
}

/* Every field that the list calls an address of the device must be one, or null. */
static void check_pointers(const Operation &operation)
{
    const Function &f = *operation.work.function;
    for (uint32_t i = 0; i < f.info.n_pointers; i++) {
        uint64_t p;
        memcpy(&p, operation.work.parameters.data() + f.info.pointer[i].offset, sizeof p);
        if (p && !find(p))
            report("bad pointer", "%s: parameter %s: %s", operation.what().c_str(),
                   f.info.pointer[i].name, explain(p).c_str());
    }
}

static void executor_died(const OperationRef &operation, bool is_late, const Reply *reply)
{
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    close(sock);
    sock = -1;
    bool is_address = reply && reply->outcome == Outcome::bad_address;
    context_fails(is_late      ? CUDA_ERROR_LAUNCH_TIMEOUT
                  : is_address ? CUDA_ERROR_ILLEGAL_ADDRESS
                               : CUDA_ERROR_LAUNCH_FAILED,
                  operation);
    if (is_address)
        report("kernel fault", "%s: illegal address: %s", operation->what().c_str(),
               explain(reply->address).c_str());
    else
        report("kernel fault", "%s: the kernel %s", operation->what().c_str(),
               is_late ? "did not end" : "aborted");
}

static void take_accesses(const OperationRef &operation, uint32_t count)
{
    std::vector<AccessRun> runs(count);
    receive_all(runs.data(), runs.size() * sizeof(AccessRun));
    for (auto &a : runs) {
        Allocation *m = find(a.begin);
        uint64_t end = m ? m->base + m->bytes : a.begin;
        if (a.end > end) /* inside the mapped pages, outside the allocation */
            report("kernel bounds", "%s %s %llu bytes outside: %s", operation->what().c_str(),
                   a.write ? "writes" : "reads", static_cast<unsigned long long>(a.end - end),
                   explain(end).c_str());
        note_access(operation, a.begin, a.end, a.write);
    }
}

void execute_kernel(const OperationRef &operation, bool late_copies, uint32_t seed)
{
    const Work &work = operation->work;
    Function &f = *work.function;
    f.last[operation->lane] = operation;
    if (f.unloaded) {
        report("use after free", "%s runs after its module was unloaded",
               operation->what().c_str());
        context_fails(CUDA_ERROR_ILLEGAL_ADDRESS, operation);
        return;
    }
    n_of_kernels[f.info.name]++;
    check_pointers(*operation);
    Request request = {};
    Reply reply = {};
    request.order = Order::run;
    request.kernel = f.index;
    request.late_copies = late_copies;
    request.seed = seed;
    request.shape = work.shape;
    bool alive = ask(request, work.parameters, "", &reply);
    if (!alive || reply.outcome != Outcome::ok)
        return executor_died(operation, !alive && (errno == EAGAIN || errno == EWOULDBLOCK),
                             alive ? &reply : nullptr);
    take_accesses(operation, reply.count);
}
