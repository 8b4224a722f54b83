/* Memory between processes. */
#include "double.h"

#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Fits the 64 bytes of a handle; carries no pointer of either process. */
struct IpcHandle {
    uint32_t magic;
    int32_t pid;
    uint32_t id, descriptor;
    uint64_t nonce;
};
static_assert(sizeof(IpcHandle) <= sizeof(struct cuda_ipc_handle), "");
enum : uint32_t { HANDLE_MAGIC = 0x6b766970 };

/* Of what is exported alone: a shorter allocation may lie in a piece with others, and the piece is what is exported. */
enum : uint64_t { EXPORT_BYTES = 2 << 20 };

struct Import {
    IpcHandle handle;
    int fd;
};
static std::map<uint64_t, Import> imports;
static uint64_t next_import = IMPORT_BASE;

cuda_code ipc_export(uint64_t address, struct cuda_ipc_handle *out)
{
    Allocation *a = find(address);
    if (!a || a->kind != Allocation::device || a->base != address) {
        report("ipc", "cuIpcGetMemHandle needs the base of a cuMemAlloc allocation: %s",
               explain(address).c_str());
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (a->bytes % EXPORT_BYTES)
        report("ipc", "%s is exported, and what lies beside it in a piece of 2 MiB goes with it",
               a->name().c_str());
    prctl(PR_SET_DUMPABLE, 1); /* importers come by /proc, which a driver does not */
    IpcHandle h = {};
    h.magic = HANDLE_MAGIC;
    h.pid = getpid();
    h.id = a->id;
    h.descriptor = static_cast<uint32_t>(device_memory_fd());
    h.nonce = shared_table()->nonce;
    memset(out, 0, sizeof *out);
    memcpy(out, &h, sizeof h);
    return CUDA_SUCCESS;
}

/* Of the byte of that number in a device's memory. */
static struct flock lock_of(uint32_t id, short type)
{
    struct flock lock = {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = id;
    lock.l_len = 1;
    return lock;
}

bool ipc_is_open_elsewhere(const Allocation &a)
{
    struct flock lock = lock_of(a.id, F_WRLCK);
    return !fcntl(device_memory_fd(), F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
}

/* What the exporter says of itself; null: it is gone, or never was. */
static const SharedTable *open_table(const IpcHandle &h, int fd)
{
    struct stat s;
    if (fd < 0 || fstat(fd, &s) || s.st_size < static_cast<off_t>(TABLE_BYTES))
        return nullptr;
    void *t = mmap(nullptr, TABLE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    if (t == MAP_FAILED)
        return nullptr;
    auto table = static_cast<const SharedTable *>(t);
    if (table->nonce == h.nonce)
        return table;
    munmap(t, TABLE_BYTES);
    return nullptr;
}

/* The allocation as this process has it. */
static std::unique_ptr<Allocation> map_slot(const IpcHandle &h, const SharedTable *table, int fd)
{
    auto &slot = table->slot[h.id];
    struct flock lock = lock_of(h.id, F_RDLCK);
    if (!slot.live || fcntl(fd, F_OFD_SETLK, &lock)) {
        report("ipc", "cuIpcOpenMemHandle: the exporter has freed the allocation");
        return nullptr;
    }
    void *alias = mmap(nullptr, slot.map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                       static_cast<off_t>(slot.map_offset));
    if (alias == MAP_FAILED)
        return nullptr;
    uint64_t start = next_import + PAGE, inside = slot.offset - slot.map_offset;
    auto a = std::make_unique<Allocation>();
    a->kind = Allocation::imported;
    a->map_base = start;
    a->map_bytes = slot.map_bytes;
    a->base = start + inside;
    a->bytes = slot.bytes;
    a->id = next_allocation_id();
    a->alias = static_cast<uint8_t *>(alias) + inside;
    if (executor_map(*a, fd_path(h.pid, static_cast<int>(h.descriptor)), slot.map_offset)) {
        next_import = start + slot.map_bytes;
        return a;
    }
    munmap(alias, slot.map_bytes);
    return nullptr;
}

static Allocation *import(const IpcHandle &h)
{
    int fd = open(fd_path(h.pid, static_cast<int>(h.descriptor)).c_str(),
                  O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const SharedTable *table = open_table(h, fd);
    std::unique_ptr<Allocation> a = table ? map_slot(h, table, fd) : nullptr;
    if (table)
        munmap(const_cast<SharedTable *>(table), TABLE_BYTES);
    if (!a) {
        if (fd >= 0)
            close(fd);
        return nullptr;
    }
    Allocation *imported = a.get();
    imports[a->base] = {h, fd};
    live[a->base] = std::move(a);
    return imported;
}

cuda_code ipc_open(const struct cuda_ipc_handle *handle, uint64_t *address)
{
    IpcHandle h;
    memcpy(&h, handle, sizeof h);
    if (h.magic != HANDLE_MAGIC || h.id >= sizeof SharedTable::slot / sizeof *SharedTable::slot)
        return CUDA_ERROR_INVALID_VALUE;
    if (h.pid == getpid()) {
        report("ipc", "cuIpcOpenMemHandle in the process that exported the memory");
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    Allocation *a = nullptr;
    for (auto &i : imports)
        if (i.second.handle.nonce == h.nonce && i.second.handle.id == h.id)
            a = find(i.first);
    if (!a && !(a = import(h)))
        return CUDA_ERROR_MAP_FAILED;
    a->opened++;
    *address = a->base;
    return CUDA_SUCCESS;
}

cuda_code ipc_close(uint64_t address)
{
    auto it = live.find(address);
    if (it == live.end() || it->second->kind != Allocation::imported) {
        report("ipc", "cuIpcCloseMemHandle: %s", explain(address).c_str());
        return CUDA_ERROR_INVALID_VALUE;
    }
    Allocation &a = *it->second;
    if (--a.opened)
        return CUDA_SUCCESS;
    drain();
    check_free_order(a, "cuIpcCloseMemHandle");
    munmap(a.alias - (a.base - a.map_base), a.map_bytes);
    executor_unmap(a.map_base, a.map_bytes);
    close(imports[address].fd); /* and with it the lock */
    imports.erase(address);
    a.history.clear();
    freed[address] = std::move(it->second);
    live.erase(it);
    return CUDA_SUCCESS;
}
