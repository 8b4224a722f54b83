/*
 * Device and pinned memory of the double.
 *
 * One memfd holds all device memory. The client's addresses are reserved and PROT_NONE: a host dereference faults and is
 * named. The library works through a second mapping; the executor maps each allocation at the client's address and nothing
 * else. An allocation ends at a page's end (up to the 256-byte granule), so a kernel that runs past it faults. Addresses
 * are not used again: a stale pointer is always a stale pointer. Pinned memory is a second memfd, mapped at the same address
 * in client and executor.
 */
#include "double.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

Allocations live, freed;
static int device_fd = -1, pinned_fd = -1;
static uint8_t *device_alias, *pinned_alias;
static SharedTable *table;
static uint64_t next_device = DEVICE_BASE + TABLE_BYTES, next_pinned = PINNED_BASE;
static size_t device_total, device_used;
static uint32_t next_id = 1;

enum : uint64_t { GRANULE = 256, PINNED_UNIT = 512, NEAR = 65536 };
enum : uint8_t { POISON = 0xff, RED_ZONE = 0xfa }; /* NaN in every format, -1 as an integer */

std::string Allocation::name() const
{
    static const char *const names[] = {"device allocation", "pinned allocation",
                                        "imported allocation"};
    return std::string(names[kind]) + " " + std::to_string(id) + " (" + std::to_string(bytes) +
           " bytes)";
}

static uint64_t up(uint64_t a, uint64_t unit)
{
    return (a + unit - 1) / unit * unit;
}

std::string fd_path(pid_t pid, int fd)
{
    return "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
}

int device_memory_fd()
{
    return device_fd;
}

SharedTable *shared_table()
{
    return table;
}

uint32_t next_allocation_id()
{
    return next_id++;
}

static void reserve(uint64_t at, uint64_t end)
{
    void *wanted = reinterpret_cast<void *>(at);
    if (mmap(wanted, end - at, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != wanted)
        unsupported("the double's address range is taken in this process");
}

static uint8_t *arena(const char *name, uint64_t bytes, int *fd)
{
    *fd = memfd_create(name, MFD_CLOEXEC);
    void *p = *fd < 0 || ftruncate(*fd, static_cast<off_t>(bytes))
                  ? MAP_FAILED
                  : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, *fd,
                         0);
    if (p == MAP_FAILED)
        unsupported("no shared memory for %s: %s", name, strerror(errno));
    return static_cast<uint8_t *>(p);
}

void memory_start(size_t device_bytes)
{
    device_total = device_bytes;
    reserve(DEVICE_BASE, PINNED_BASE);
    reserve(PINNED_BASE, IMPORT_BASE);
    reserve(IMPORT_BASE, SPACE_END);
    device_alias = arena("double-device", PINNED_BASE - DEVICE_BASE, &device_fd);
    pinned_alias = arena("double-pinned", IMPORT_BASE - PINNED_BASE, &pinned_fd);
    table = reinterpret_cast<SharedTable *>(device_alias);
    timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    table->nonce = static_cast<uint64_t>(t.tv_nsec) << 32 ^ static_cast<uint64_t>(t.tv_sec) << 8 ^
                   static_cast<uint64_t>(getpid());
    guards_start();
}

cuda_code allocate(Allocation::Kind kind, size_t bytes, uint64_t *address)
{
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    bool device = kind == Allocation::device;
    /* Pinned: at some multiple of 512, as small allocations that share a page are. */
    const size_t before = device ? 0 : (next_id % 8) * PINNED_UNIT;
    size_t body = up(bytes, GRANULE), mapped = up(before + body, PAGE);
    if (device && (next_id >= 65535 || !device_take(mapped)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!device && mapped > (IMPORT_BASE - next_pinned) / 2)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t &next = device ? next_device : next_pinned;
    uint64_t start = next + PAGE; /* a guard page between neighbours */
    auto a = std::make_unique<Allocation>();
    a->kind = kind;
    a->map_base = start;
    a->map_bytes = mapped;
    a->base = device ? start + mapped - body : start + before;
    a->bytes = bytes;
    a->id = next_id++;
    next = start + mapped;
    uint64_t offset = start - (device ? DEVICE_BASE : PINNED_BASE);
    uint8_t *alias = (device ? device_alias : pinned_alias) + offset;
    a->alias = alias + (a->base - start);
    memset(alias, RED_ZONE, mapped);
    memset(a->alias, POISON, bytes);
    int fd = device ? device_fd : pinned_fd;
    if (!device && mmap(reinterpret_cast<void *>(start), mapped, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED, fd, static_cast<off_t>(offset)) == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!executor_map(*a, fd_path(getpid(), fd), offset))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (device) {
        auto &slot = table->slot[a->id];
        slot.offset = a->base - DEVICE_BASE;
        slot.bytes = a->bytes;
        slot.map_offset = offset;
        slot.map_bytes = mapped;
        slot.live = 1;
    }
    *address = a->base;
    live[a->base] = std::move(a);
    return CUDA_SUCCESS;
}

static void check_red_zones(const Allocation &a)
{
    if (a.kind == Allocation::imported)
        return;
    const uint8_t *start = a.alias - (a.base - a.map_base), *end = start + a.map_bytes;
    for (const uint8_t *p = start; p < end; p++) {
        if (p == a.alias)
            p += a.bytes;
        if (p < end && *p != RED_ZONE) {
            report("red zone", "bytes around %s were overwritten: %s", a.name().c_str(),
                   explain(a.base + static_cast<uint64_t>(p - a.alias)).c_str());
            return;
        }
    }
}

void check_free_order(const Allocation &a, const char *call)
{
    for (auto &s : a.history) {
        std::vector<OperationRef> all = s.second.reads;
        if (s.second.write)
            all.push_back(s.second.write);
        for (auto &operation : all)
            if (!host_knows(*operation)) {
                report("early free", "%s of %s, but nothing has waited for %s, which touched it",
                       call, a.name().c_str(), operation->what().c_str());
                return;
            }
    }
}

/* The memory behind it is the machine's again; the addresses are nobody's. */
static void unmap(const Allocation &a)
{
    bool device = a.kind == Allocation::device;
    uint64_t offset = a.map_base - (device ? DEVICE_BASE : PINNED_BASE);
    executor_unmap(a.map_base, a.map_bytes);
    fallocate(device ? device_fd : pinned_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(offset), static_cast<off_t>(a.map_bytes));
    if (!device)
        mmap(reinterpret_cast<void *>(a.map_base), a.map_bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

cuda_code release(Allocation::Kind kind, uint64_t address, const char *call)
{
    auto it = live.find(address);
    if (it == live.end() || it->second->kind != kind) {
        Allocation *f = find_freed(address);
        report(f && f->base == address ? "double free" : "bad free", "%s of %s", call,
               explain(address).c_str());
        return CUDA_ERROR_INVALID_VALUE;
    }
    Allocation &a = *it->second;
    drain(); /* the driver may synchronise here, and does; a client that relies on it is told */
    check_free_order(a, call);
    check_red_zones(a);
    if (kind == Allocation::device) {
        device_give(a.map_bytes);
        table->slot[a.id].live = 0;
        if (ipc_is_open_elsewhere(a))
            report("ipc", "%s is freed while another process has it open", a.name().c_str());
    }
    guards_forget(a.base, a.base + a.bytes);
    unmap(a);
    a.history.clear();
    freed[address] = std::move(it->second);
    live.erase(it);
    return CUDA_SUCCESS;
}

static Allocation *find_in(Allocations &allocations, uint64_t address)
{
    auto it = allocations.upper_bound(address);
    if (it == allocations.begin())
        return nullptr;
    Allocation *a = (--it)->second.get();
    return address < a->base + a->bytes ? a : nullptr;
}

Allocation *find(uint64_t address)
{
    return find_in(live, address);
}

Allocation *find_freed(uint64_t address)
{
    return find_in(freed, address);
}

bool in_device_space(uint64_t a)
{
    return (a >= DEVICE_BASE && a < PINNED_BASE) || (a >= IMPORT_BASE && a < SPACE_END);
}

size_t device_bytes_used()
{
    return device_used + others_have();
}

bool device_take(size_t bytes)
{
    OneGpu hold;
    size_t used = device_bytes_used();
    if (used > device_total || bytes > device_total - used)
        return false;
    device_used += bytes;
    tell_others(device_used);
    return true;
}

void device_give(size_t bytes)
{
    OneGpu hold;
    device_used -= bytes;
    tell_others(device_used);
}

size_t device_bytes_total()
{
    return device_total;
}

static std::string hexadecimal(uint64_t address)
{
    char s[32];
    snprintf(s, sizeof s, "0x%llx", static_cast<unsigned long long>(address));
    return s;
}

std::string explain(uint64_t address)
{
    auto say = [&](uint64_t n, const char *where, const Allocation &a) {
        return std::to_string(n) + where + a.name() + ", at " + hexadecimal(address);
    };
    if (Allocation *a = find(address))
        return "byte " + say(address - a->base, " of ", *a);
    if (Allocation *a = find_freed(address))
        return "byte " + say(address - a->base, " of freed ", *a);
    auto it = live.upper_bound(address);
    if (it != live.begin()) {
        const Allocation &a = *std::prev(it)->second;
        if (address < a.base + a.bytes + NEAR)
            return say(address - a.base - a.bytes, " bytes past the end of ", a);
    }
    if (it != live.end() && address + NEAR > it->second->base)
        return say(it->second->base - address, " bytes before ", *it->second);
    return hexadecimal(address) + (in_device_space(address)
                                       ? ", which is in no allocation"
                                       : ", which is host memory that is not pinned, or nothing");
}

void list_leaked_memory(std::vector<std::string> &out)
{
    for (auto &a : live) {
        check_red_zones(*a.second);
        out.push_back(a.second->name());
    }
}
