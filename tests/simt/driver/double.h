/*
 * double - what the parts of the driver double share.
 *
 * Everything here is called with big_lock held.
 */
#pragma once

#include "image.h"

extern "C" {
#include "device/cuda_driver.h"

#define X(name, since, exported, arguments)                                                        \
    __attribute__((visibility("default"))) cuda_code exported arguments;
CUDA_DRIVER_FIRST_CALLS(X)
CUDA_DRIVER_CALLS(X)
#undef X
}

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#define CODE(name, value) constexpr cuda_code CUDA_##name = value;
#include "codes.list"
#undef CODE

/* ---- reports ---- */

/* A mistake of the client. */
void report(const char *kind, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Lawful, but suspect: shown with DOUBLE_NOTES. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends the process. */
[[noreturn]] void unsupported(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The last word: what is left over. Returns what the process is to end with: a report turns 0 into 97. */
int finish(int status);
long setting(const char *name, long otherwise);
extern std::recursive_mutex big_lock;
extern bool ended; /* the process is on its way out */
extern size_t n_calls, n_operations, n_kernels;
extern std::map<std::string, size_t> &n_of_kernels; /* that ran, by name */

/* ---- order: operations, clocks ---- */

/*
 * A clock says, for each lane, the number of the last operation known to be complete. A lane is a stream, or one captured
 * stream of an executable graph: its operations are a chain.
 */
using Clock = std::vector<uint32_t>;

struct Function;

struct Work {
    enum Kind { nothing, copy, fill, kernel } kind = nothing;
    const char *call = "";     /* the driver call that asked for it */
    uint64_t to = 0, from = 0; /* copy, fill: addresses as the client gave them */
    size_t bytes = 0;
    uint8_t value = 0; /* fill */
    Function *function = nullptr;
    LaunchShape shape = {};
    std::vector<uint8_t> parameters; /* copied when the call is made */
};

struct Operation;
using OperationRef = std::shared_ptr<Operation>;

struct Operation {
    Work work;
    uint32_t lane = 0, number = 0, id = 0, polls = 0;
    Clock clock; /* what is complete before this begins */
    std::vector<OperationRef> before;
    std::string lane_name;
    bool done = false, running = false, hung = false;
    std::string what() const; /* "cuMemcpyDtoHAsync #3 on stream 2" */
};

bool ordered(const Operation &a, const Operation &b); /* a is complete before b begins */
uint32_t new_lane(const std::string &name);
OperationRef enqueue(uint32_t lane, std::vector<OperationRef> before, Work work);
void run_some();                              /* once an API call: what the mode lets happen now */
bool poll(const OperationRef &operation);     /* one look; true: complete, and the host knows */
bool wait_for(const OperationRef &operation); /* false: the context has failed */
void drain();                                 /* everything that can still run */
bool host_knows(
    const Operation &operation); /* the host has waited for it, or for something behind it */
extern cuda_code sticky;         /* the context's error; every later call returns it */
extern size_t sticky_operation;  /* that it came from */
void context_fails(cuda_code code, const OperationRef &operation);
void start_ticking();

/* ---- memory ---- */

/* Bytes with one history. */
struct Segment {
    uint64_t end;
    OperationRef write;
    std::vector<OperationRef> reads; /* since the write, the last of each lane */
};

struct Allocation {
    enum Kind { device, pinned, imported } kind;
    uint64_t base, bytes, map_base, map_bytes;
    uint32_t id;
    uint8_t *alias; /* where the library reaches it whatever the client's protection is */
    int opened = 0; /* imported: how often */
    std::map<uint64_t, Segment> history;
    std::string name() const;
};

using Allocations = std::map<uint64_t, std::unique_ptr<Allocation>>; /* by base */
extern Allocations live, freed;

void memory_start(size_t device_bytes);
cuda_code allocate(Allocation::Kind kind, size_t bytes, uint64_t *address);
cuda_code release(Allocation::Kind kind, uint64_t address, const char *call);
/* Freeing is a write by the host to all of it: whoever touched it must have been waited for. */
void check_free_order(const Allocation &allocation, const char *call);
Allocation *find(uint64_t address); /* live, containing the address */
Allocation *find_freed(uint64_t address);
std::string
explain(uint64_t address); /* "16 bytes past the end of device allocation 3 (512 bytes), at 0x.." */
bool in_device_space(uint64_t address);
size_t device_bytes_used(), device_bytes_total();
bool device_take(size_t bytes); /* of the GPU's memory, for anything; false: there is none */
void device_give(size_t bytes);

/* Processes with one DOUBLE_GPU, a file, share a GPU's memory: gpu.cpp. */
struct OneGpu { /* nobody else takes any meanwhile */
    OneGpu();
    ~OneGpu();
};
size_t others_have();
void tell_others(size_t used);
int device_memory_fd(); /* for another process */
std::string fd_path(pid_t pid, int fd);
struct SharedTable *shared_table();
uint32_t next_allocation_id();
void list_leaked_memory(std::vector<std::string> &out);

cuda_code ipc_export(uint64_t address, struct cuda_ipc_handle *handle);
cuda_code ipc_open(const struct cuda_ipc_handle *handle, uint64_t *address);
cuda_code ipc_close(uint64_t address);
bool ipc_is_open_elsewhere(const Allocation &allocation);

/* Happens-before check, then history. */
void note_access(const OperationRef &operation, uint64_t begin, uint64_t end, bool write);
void execute_copy(const OperationRef &operation);
void execute_fill(const OperationRef &operation);

/* Until the host has waited for operation, its own touch of the operation's host bytes is a report. */
void guard_host(const OperationRef &operation);
void guards_sweep(); /* after the host's clock moved on */
void guards_forget(uint64_t begin, uint64_t end);
void guards_start();

/* Faults inside are the library's own. */
struct InLibrary {
    InLibrary();
    ~InLibrary();
};
bool is_in_library();

/* At the start of the shared memory: what importers may ask about. Who has an allocation open holds a lock on the byte of that
 * memory whose number is the allocation's: it ends with its process. */
struct SharedTable {
    uint64_t nonce;
    struct {
        volatile uint32_t live;
        uint64_t offset, bytes, map_offset, map_bytes;
    } slot[65535];
};
enum : uint64_t { TABLE_BYTES = 4 << 20 };
static_assert(sizeof(SharedTable) <= TABLE_BYTES, "");

/* ---- executor ---- */

bool executor_start();
bool executor_map(const Allocation &allocation, const std::string &path, uint64_t offset);
bool executor_unmap(uint64_t address, uint64_t bytes);
bool executor_load(std::vector<KernelInfo> *kernels);
void execute_kernel(const OperationRef &operation, bool late_copies, uint32_t seed);

struct Function {
    KernelInfo info;
    uint32_t index; /* of the image */
    int dynamic_shared_max = 48 * 1024;
    bool loaded = false; /* by cuFuncLoad: else by its first launch, which is late */
    bool unloaded = false;
    std::map<uint32_t, OperationRef> last; /* by lane */
};

/* DOUBLE_ARCHITECTURE: 90 */
int architecture();
/* Of a CTA at most, once it was asked for. */
int shared_bytes_max();

/* ---- objects of the client ---- */

struct Graph;
struct Stream;

/* One capture sequence. */
struct Capture {
    Stream *origin;
    unsigned mode;
    pthread_t thread;
    bool invalid = false;
    Graph *graph;
    std::vector<Stream *> streams;
};
enum : unsigned { CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL, CAPTURE_RELAXED };
extern std::vector<Capture *> captures;

struct Stream {
    uint32_t lane, ordinal;
    OperationRef last;
    Capture *capture = nullptr;
    std::vector<int> tail; /* nodes the next captured one depends on */
    uint32_t capture_lane = 0;
};

struct Event {
    OperationRef operation;     /* the record */
    Capture *capture = nullptr; /* last recorded in this capture */
    bool captured = false;      /* stays true after the capture has ended */
    std::vector<int> nodes;
};

struct Node {
    Work work;
    std::vector<int> before;
    uint32_t lane; /* which captured stream */
};

struct Graph {
    std::vector<Node> nodes;
    uint32_t n_lanes = 0;
};

struct Exec {
    std::vector<Node> nodes;
    std::vector<uint32_t> lanes;
    OperationRef last; /* launches of one executable graph follow each other */
    size_t bytes = 0;  /* of the device's memory, from its upload on */
};

struct Module {
    std::vector<Function *> functions;
};

/* Live objects by kind, for the check of handles and the list of leaks. Objects stay, so that the address of a destroyed one is
 * not used again; reachable for leak checkers to the very end. */
extern std::map<void *, const char *> handles;
void retire(void *object);
bool is(const void *handle, const char *kind);
template <class T> T *make(const char *kind, T *object)
{
    handles[object] = kind;
    return object;
}
std::string describe(void *handle);

Stream *stream_of(cuda_stream handle);
OperationRef put(Stream *stream, Work work,
                 std::vector<OperationRef> before = {}); /* not capturing */
cuda_code submit(cuda_stream handle, Work work);
void invalidate(Capture *capture, const char *call);
/* May this thread make potentially unsafe calls now? */
bool prohibited(const char *call);

/* ---- the way into every call ---- */

enum { no_init = 1, no_context = 2, unsafe = 4 };
cuda_code enter(const char *name, int flags); /* what is wrong before the call begins */
cuda_code leave(const char *name, int flags, size_t operations_before, cuda_code code);
extern bool initialised;
extern int primary_retained;

template <class F> cuda_code api(const char *name, int flags, F body)
{
    std::lock_guard<std::recursive_mutex> hold(big_lock);
    InLibrary in;
    n_calls++;
    size_t operations_before = n_operations;
    cuda_code code = enter(name, flags);
    if (code == CUDA_SUCCESS)
        code = body();
    return leave(name, flags, operations_before, code);
}
