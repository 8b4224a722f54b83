/* The way into every call: failures on demand, contexts, captures, errors that stick. */
#include "double.h"

#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <unistd.h>

bool initialised;
int primary_retained;
std::vector<Capture *> captures;
extern thread_local bool has_context;
extern pid_t owner;

struct Rule {
    std::string name;
    int at, code;
};

/* DOUBLE_FAIL=cuMemcpyDtoHAsync:3:719,...; * is any call. */
static std::vector<Rule> read_rules()
{
    std::vector<Rule> rules;
    std::string s = getenv("DOUBLE_FAIL") ? getenv("DOUBLE_FAIL") : "";
    for (size_t i = 0; i < s.size();) {
        size_t end = std::min(s.find(',', i), s.size());
        char call[64];
        int at, code;
        if (sscanf(s.substr(i, end - i).c_str(), "%63[^:]:%d:%d", call, &at, &code) != 3)
            unsupported("DOUBLE_FAIL=%s", s.c_str());
        rules.push_back({call, at, code});
        i = end + 1;
    }
    return rules;
}

static cuda_code injected(const char *name)
{
    static std::vector<Rule> rules = read_rules();
    for (auto &r : rules)
        if ((r.name == "*" || r.name == name) && --r.at == 0)
            return static_cast<cuda_code>(r.code);
    return CUDA_SUCCESS;
}

static bool is_sticky(cuda_code code)
{
    switch (code) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
        return true;
    default:
        return false;
    }
}

void invalidate(Capture *capture, const char *call)
{
    if (!capture->invalid)
        report("capture", "%s is not allowed here and invalidates the capture begun on stream %u",
               call, capture->origin->ordinal);
    capture->invalid = true;
}

/* As the text of cuThreadExchangeStreamCaptureMode has it; nobody here exchanges. */
bool prohibited(const char *call)
{
    bool hit = false;
    for (Capture *c : captures) {
        bool is_own = pthread_equal(c->thread, pthread_self());
        if (is_own ? c->mode != CAPTURE_RELAXED : c->mode == CAPTURE_GLOBAL) {
            invalidate(c, call);
            hit = true;
        }
    }
    return hit;
}

cuda_code enter(const char *name, int flags)
{
    if (initialised && getpid() != owner) {
        report("fork", "%s is called by a forked child of the process that called cuInit", name);
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    if (!initialised && !(flags & no_init))
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!(flags & no_context)) {
        if (!has_context) {
            report("no context", "%s is called by a thread that has no context", name);
            return CUDA_ERROR_INVALID_CONTEXT;
        }
        if (!primary_retained)
            return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        if (sticky)
            return sticky;
    }
    if ((flags & unsafe) && prohibited(name))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    cuda_code code = injected(name);
    if (is_sticky(code))
        context_fails(code, nullptr);
    return code;
}

cuda_code leave(const char *name, int flags, size_t operations_before, cuda_code code)
{
    static bool log = getenv("DOUBLE_LOG") != nullptr;
    if (initialised)
        run_some();
    /* The error of earlier asynchronous work may appear at any call; never its own at the call itself. */
    if (sticky && !(flags & no_context) && code == CUDA_SUCCESS &&
        sticky_operation <= operations_before)
        code = sticky;
    if (log)
        fprintf(stderr, "cuda-double: %s -> %u\n", name, code);
    return code;
}
