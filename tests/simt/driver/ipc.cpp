/* Memory between processes. */
#include "double.h"

#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Fits the 64 bytes of a handle; carries no pointer of either process. */
struct IpcHandle {
    uint32_t magic;
    int32_t pid, id;
    uint32_t descriptor;
    uint64_t nonce, offset, bytes, map_offset, map_bytes;
};
static_assert(sizeof(IpcHandle) <= sizeof(struct cuda_ipc_handle), "");
enum : uint32_t { HANDLE_MAGIC = 0x6b766970 };

struct Import {
    IpcHandle handle;
    SharedTable *table;
};
static std::map<uint64_t, Import> imports;
static uint64_t next_import = IMPORT_BASE;

/* The descriptor stands in the exporter's table, at a path that its process number gives. */
static std::string path_of(const IpcHandle &h)
{
    return "/proc/" + std::to_string(h.pid) + "/fd/" + std::to_string(h.descriptor);
}

cuda_code ipc_export(uint64_t address, struct cuda_ipc_handle *out)
{
    Allocation *a = find(address);
    if (!a || a->kind != Allocation::device || a->base != address) {
        report("ipc", "cuIpcGetMemHandle needs the base of a cuMemAlloc allocation: %s",
               explain(address).c_str());
        return CUDA_ERROR_INVALID_VALUE;
    }
    std::string path = device_memory_path();
    IpcHandle h = {};
    h.magic = HANDLE_MAGIC;
    h.pid = getpid();
    h.id = static_cast<int32_t>(a->id);
    h.descriptor = static_cast<uint32_t>(strtoul(path.c_str() + path.rfind('/') + 1, nullptr, 10));
    h.nonce = shared_table()->nonce;
    h.offset = a->base - DEVICE_BASE;
    h.bytes = a->bytes;
    h.map_offset = a->map_base - DEVICE_BASE;
    h.map_bytes = a->map_bytes;
    memset(out, 0, sizeof *out);
    memcpy(out, &h, sizeof h);
    return CUDA_SUCCESS;
}

/* The allocation as this process has it; null: the exporter is gone, or has freed it. */
static Allocation *import(const IpcHandle &h)
{
    int fd = open(path_of(h).c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return nullptr;
    void *t = mmap(nullptr, TABLE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    void *alias = mmap(nullptr, h.map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                       static_cast<off_t>(h.map_offset));
    close(fd);
    if (t == MAP_FAILED || alias == MAP_FAILED)
        return nullptr;
    auto table = static_cast<SharedTable *>(t);
    uint64_t start = next_import + PAGE;
    auto a = std::make_unique<Allocation>();
    a->kind = Allocation::imported;
    a->map_base = start;
    a->map_bytes = h.map_bytes;
    a->base = start + (h.offset - h.map_offset);
    a->bytes = h.bytes;
    a->id = next_allocation_id();
    a->alias = static_cast<uint8_t *>(alias) + (h.offset - h.map_offset);
    if (table->nonce != h.nonce || !table->slot[h.id].live ||
        !executor_map(*a, path_of(h), h.map_offset)) {
        report("ipc", "cuIpcOpenMemHandle: the exporter has freed the allocation");
        return nullptr;
    }
    next_import = start + h.map_bytes;
    __atomic_add_fetch(&table->slot[h.id].opened, 1, __ATOMIC_SEQ_CST);
    Allocation *imported = a.get();
    imports[a->base] = {h, table};
    live[a->base] = std::move(a);
    return imported;
}

cuda_code ipc_open(const struct cuda_ipc_handle *handle, uint64_t *address)
{
    IpcHandle h;
    memcpy(&h, handle, sizeof h);
    if (h.magic != HANDLE_MAGIC)
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
    Import &i = imports[address];
    __atomic_sub_fetch(&i.table->slot[i.handle.id].opened, 1, __ATOMIC_SEQ_CST);
    munmap(i.table, TABLE_BYTES);
    munmap(a.alias - (a.base - a.map_base), a.map_bytes);
    executor_unmap(a.map_base, a.map_bytes);
    imports.erase(address);
    freed[address] = std::move(it->second);
    live.erase(it);
    return CUDA_SUCCESS;
}
