/* Memory of the device and pinned memory, and what copies and fills them. */
#include "double.h"

cuda_code cuMemGetInfo_v2(size_t *n_free, size_t *total)
{
    return api("cuMemGetInfo", 0, [&] {
        *total = device_bytes_total();
        *n_free = *total - device_bytes_used();
        return CUDA_SUCCESS;
    });
}

cuda_code cuMemAlloc_v2(cuda_address *address, size_t bytes)
{
    return api("cuMemAlloc", unsafe, [&] {
        uint64_t at = 0;
        cuda_code code = allocate(Allocation::device, bytes, &at);
        *address = at;
        return code;
    });
}

cuda_code cuMemFree_v2(cuda_address address)
{
    return api("cuMemFree", unsafe, [&] {
        return address ? release(Allocation::device, address, "cuMemFree") : CUDA_SUCCESS;
    });
}

cuda_code cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    if (flags & ~static_cast<unsigned>(CUDA_HOST_PORTABLE))
        unsupported("cuMemHostAlloc with flags 0x%x", flags);
    return api("cuMemHostAlloc", unsafe, [&] {
        uint64_t at = 0;
        cuda_code code = allocate(Allocation::pinned, bytes, &at);
        *memory = reinterpret_cast<void *>(at);
        return code;
    });
}

cuda_code cuMemFreeHost(void *memory)
{
    return api("cuMemFreeHost", unsafe, [&] {
        return release(Allocation::pinned, reinterpret_cast<uint64_t>(memory), "cuMemFreeHost");
    });
}

cuda_code cuIpcGetMemHandle(struct cuda_ipc_handle *handle, cuda_address address)
{
    return api("cuIpcGetMemHandle", 0, [&] { return ipc_export(address, handle); });
}

cuda_code cuIpcOpenMemHandle_v2(cuda_address *address, struct cuda_ipc_handle handle,
                                unsigned flags)
{
    return api("cuIpcOpenMemHandle", 0, [&] {
        uint64_t at = 0;
        if (flags != CUDA_IPC_LAZY_PEER_ACCESS)
            return CUDA_ERROR_INVALID_VALUE;
        cuda_code code = ipc_open(&handle, &at);
        *address = at;
        return code;
    });
}

cuda_code cuIpcCloseMemHandle(cuda_address address)
{
    return api("cuIpcCloseMemHandle", 0, [&] { return ipc_close(address); });
}

/* Is it device memory that a copy may touch? Whatever the answer, a wrong range is said. */
static cuda_code device_range(const char *call, uint64_t at, size_t n)
{
    Allocation *a = find(at);
    if (a && a->kind != Allocation::pinned && n <= a->base + a->bytes - at)
        return CUDA_SUCCESS;
    if (a && a->kind == Allocation::pinned)
        unsupported("%s with pinned host memory as the device side: %s", call, explain(at).c_str());
    report("bad copy", "%s of %zu bytes: %s", call, n, explain(at).c_str());
    return CUDA_ERROR_INVALID_VALUE;
}

enum class HostMemory { pinned, pageable, neither };

static HostMemory host_range(const char *call, const void *memory, size_t n)
{
    uint64_t at = reinterpret_cast<uint64_t>(memory);
    Allocation *a = find(at);
    if (a && a->kind == Allocation::pinned) {
        if (n <= a->base + a->bytes - at)
            return HostMemory::pinned;
    } else if (!in_device_space(at) && !find_freed(at))
        return HostMemory::pageable;
    report("bad copy", "%s of %zu bytes: the host side: %s", call, n, explain(at).c_str());
    return HostMemory::neither;
}

/* The product copies from and to pinned memory alone: by any other a copy is no longer asynchronous. */
static cuda_code check_host(const char *call, const void *memory, size_t n)
{
    switch (host_range(call, memory, n)) {
    case HostMemory::pinned:
        return CUDA_SUCCESS;
    case HostMemory::pageable:
        report("pageable", "%s of %zu bytes: %s", call, n,
               explain(reinterpret_cast<uint64_t>(memory)).c_str());
        return CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static Work copy_of(const char *call, uint64_t to, uint64_t from, size_t n)
{
    Work work;
    work.kind = Work::copy;
    work.call = call;
    work.to = to;
    work.from = from;
    work.bytes = n;
    return work;
}

cuda_code cuMemcpyHtoDAsync_v2(cuda_address to, const void *from, size_t n, cuda_stream stream)
{
    static const char call[] = "cuMemcpyHtoDAsync";
    return api(call, 0, [&] {
        if (!n)
            return CUDA_SUCCESS;
        cuda_code code = device_range(call, to, n);
        if (!code)
            code = check_host(call, from, n);
        return code ? code : submit(stream, copy_of(call, to, reinterpret_cast<uint64_t>(from), n));
    });
}

cuda_code cuMemcpyDtoHAsync_v2(void *to, cuda_address from, size_t n, cuda_stream stream)
{
    static const char call[] = "cuMemcpyDtoHAsync";
    return api(call, 0, [&] {
        if (!n)
            return CUDA_SUCCESS;
        cuda_code code = device_range(call, from, n);
        if (!code)
            code = check_host(call, to, n);
        note("%s of %zu bytes", call, n);
        return code ? code : submit(stream, copy_of(call, reinterpret_cast<uint64_t>(to), from, n));
    });
}

cuda_code cuMemcpyDtoDAsync_v2(cuda_address to, cuda_address from, size_t n, cuda_stream stream)
{
    static const char call[] = "cuMemcpyDtoDAsync";
    return api(call, 0, [&] {
        if (!n)
            return CUDA_SUCCESS;
        cuda_code code = device_range(call, to, n);
        if (!code)
            code = device_range(call, from, n);
        if (!code && find(to) == find(from) && to < from + n && from < to + n)
            unsupported("%s of bytes that overlap", call);
        return code ? code : submit(stream, copy_of(call, to, from, n));
    });
}

cuda_code cuMemGetAddressRange_v2(cuda_address *base, size_t *bytes, cuda_address address)
{
    return api("cuMemGetAddressRange", 0, [&] {
        Allocation *a = find(address);
        if (!a || a->kind == Allocation::pinned)
            return CUDA_ERROR_NOT_FOUND;
        *base = a->base;
        *bytes = a->bytes;
        return CUDA_SUCCESS;
    });
}

cuda_code cuMemsetD8Async(cuda_address to, unsigned char value, size_t n, cuda_stream stream)
{
    static const char call[] = "cuMemsetD8Async";
    return api(call, 0, [&] {
        if (!n)
            return CUDA_SUCCESS;
        if (cuda_code code = device_range(call, to, n))
            return code;
        Work work = copy_of(call, to, 0, n);
        work.kind = Work::fill;
        work.value = value;
        return submit(stream, work);
    });
}
