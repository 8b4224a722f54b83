#include "tests/device/fault_device.h"

#include "base/crc32c.h"
#include "base/random.h"
#include "device/device_ops.h"

#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPERATIONS_MAX = 1 << 14, RUBBISH = 0xA5, ARMED_CALL = 32, VIEW_ALIGNMENT = 64 };

enum kind { LAUNCH, READ, WRITE, COPY, DIGEST, RECORD, AFTER };

/* Memory that another process can map: a file without a name, of whole DEVICE_EXPORT_BYTES. */
enum { SHARED_MAX = 4, IMPORTS_MAX = 16 };

struct shared {
    uint8_t *base; /* NULL: free */
    int fd;
};

struct handle {
    pid_t pid;
    int fd;
};

struct operation {
    enum kind kind;
    void (*run)(void *arg);
    void *arg;
    const uint8_t *from;
    uint8_t *to;
    size_t bytes;
    uint32_t *digest;
    struct device_ticket ticket; /* RECORD, AFTER */
};

struct queue {
    struct operation operations[OPERATIONS_MAX]; /* a ring */
    uint64_t begin, end;
    uint64_t completed;
};

struct fault_device {
    struct device base;
    struct fault_options options;
    struct random random;
    pthread_mutex_t lock;
    uint64_t n_calls;
    uint32_t n_views[DEVICE_QUEUES]; /* reads of the compute queue; all others */
    bool is_told_to_fail, is_hung;
    _Atomic uint64_t
        armed; /* how many such calls are left, 0: not armed; above ARMED_CALL the call */
    struct queue queues[DEVICE_QUEUES];
    struct shared shared[SHARED_MAX];
    struct device_mapping imports[IMPORTS_MAX];
};

static struct fault_device *fault_of(const struct device *device)
{
    return (struct fault_device *)device; /* base is its first member */
}

static bool may_run(const struct fault_device *fault, const struct operation *operation)
{
    if (fault->is_hung)
        return false;
    return operation->kind != AFTER ||
           fault->queues[operation->ticket.queue].completed >= operation->ticket.sequence;
}

/* What is read of a view that was given back is rubbish. Volatile: nobody else can tell. */
static void spoil(const struct operation *operation)
{
    volatile uint8_t *view = (volatile uint8_t *)(uintptr_t)operation->from;
    for (size_t i = 0; i < operation->bytes; i++)
        view[i] = RUBBISH;
}

static void free_view(struct fault_device *fault, const uint8_t *view)
{
    enum device_queue queue;
    uint8_t *memory = (uint8_t *)(uintptr_t)view - VIEW_ALIGNMENT;
    memcpy(&queue, memory, sizeof queue);
    assert(fault->n_views[queue] > 0);
    fault->n_views[queue]--;
    free(memory);
}

static void run_head(struct fault_device *fault, struct queue *queue)
{
    struct operation *operation = &queue->operations[queue->begin++ % OPERATIONS_MAX];
    switch (operation->kind) {
    case LAUNCH:
        operation->run(operation->arg);
        break;
    case READ:
        memcpy(operation->to, operation->from, operation->bytes);
        break;
    case WRITE:
        memcpy(operation->to, operation->from, operation->bytes);
        spoil(operation);
        free_view(fault, operation->from);
        break;
    case COPY:
        memcpy(operation->to, operation->from, operation->bytes);
        break;
    case DIGEST:
        *operation->digest = crc32c(0, operation->from, operation->bytes);
        break;
    case RECORD:
        assert(operation->ticket.sequence == queue->completed + 1);
        queue->completed = operation->ticket.sequence;
        break;
    case AFTER:
        break;
    }
}

/* One operation of a random queue, or of the other; false: none can run. */
static bool step(struct fault_device *fault)
{
    uint32_t first = (uint32_t)random_below(&fault->random, DEVICE_QUEUES);
    for (uint32_t i = 0; i < DEVICE_QUEUES; i++) {
        struct queue *queue = &fault->queues[(first + i) % DEVICE_QUEUES];
        if (queue->begin == queue->end ||
            !may_run(fault, &queue->operations[queue->begin % OPERATIONS_MAX]))
            continue;
        run_head(fault, queue);
        return true;
    }
    return false;
}

/* Whether this is the call that fault_device_arm means. */
static bool is_armed_for(struct fault_device *fault, enum fault_call call)
{
    uint64_t armed = atomic_load(&fault->armed);
    enum fault_call wanted = (enum fault_call)(armed >> ARMED_CALL);
    if ((uint32_t)armed == 0 || (wanted != FAULT_ANY && wanted != call))
        return false;
    atomic_store(&fault->armed, armed - 1);
    return (uint32_t)armed == 1;
}

/* Begins a call: false, it fails. The lock is held either way. */
static bool begin(struct fault_device *fault, enum fault_call call)
{
    pthread_mutex_lock(&fault->lock);
    if (is_armed_for(fault, call))
        fault->is_told_to_fail = true;
    return ++fault->n_calls != fault->options.fails_at && !fault->is_told_to_fail;
}

static enum status end(struct fault_device *fault, enum status status)
{
    pthread_mutex_unlock(&fault->lock);
    return status;
}

/* Kernels that nobody enqueues read what was written in front of them, even if the device hangs behind them. */
static bool runs_at_once(const struct fault_device *fault, const struct operation *operation)
{
    return operation->kind == WRITE || may_run(fault, operation);
}

static enum fault_call call_of(enum device_queue number, enum kind kind)
{
    if (kind == RECORD && number == DEVICE_COMPUTE)
        return FAULT_COMPUTED;
    return kind == READ ? FAULT_READ : kind == WRITE ? FAULT_WRITE : FAULT_ANY;
}

static enum status push(struct device *device, enum device_queue number, struct operation operation)
{
    struct fault_device *fault = fault_of(device);
    struct queue *queue = &fault->queues[number];
    if (!begin(fault, call_of(number, operation.kind)))
        return end(fault, STATUS_BUG);
    assert(queue->end - queue->begin < OPERATIONS_MAX);
    queue->operations[queue->end++ % OPERATIONS_MAX] = operation;
    while (number == DEVICE_COMPUTE && fault->options.computes_at_once && queue->begin < queue->end)
        if (runs_at_once(fault, &queue->operations[queue->begin % OPERATIONS_MAX]))
            run_head(fault, queue);
        else if (!step(fault))
            break;
    return end(fault, STATUS_OK);
}

/* Some of what can run. */
static void go_on(struct fault_device *fault)
{
    if (fault->options.steps_max == 0)
        return;
    for (uint64_t n = random_below(&fault->random, fault->options.steps_max + 1ull); n > 0; n--)
        step(fault);
}

static uint8_t *new_view(struct fault_device *fault, enum device_queue queue, size_t bytes)
{
    const uint32_t max = fault->options.views_max;
    void *memory = NULL;
    uint8_t *view = NULL;
    pthread_mutex_lock(&fault->lock);
    if (max > 0 && fault->n_views[queue] == max)
        go_on(fault); /* behind the caller's back, as a machine does */
    if (max == 0 || fault->n_views[queue] < max)
        if (posix_memalign(&memory, VIEW_ALIGNMENT, VIEW_ALIGNMENT + bytes) != 0)
            memory = NULL;
    if (memory) {
        memcpy(memory, &queue, sizeof queue); /* whose it is, in front of it */
        view = (uint8_t *)memory + VIEW_ALIGNMENT;
        memset(view, RUBBISH, bytes);
        fault->n_views[queue]++;
    }
    pthread_mutex_unlock(&fault->lock);
    return view;
}

/* Nothing of what is enqueued is run any more. */
static void drop_all(struct fault_device *fault)
{
    for (uint32_t q = 0; q < DEVICE_QUEUES; q++)
        for (struct queue *queue = &fault->queues[q]; queue->begin < queue->end; queue->begin++) {
            const struct operation *left = &queue->operations[queue->begin % OPERATIONS_MAX];
            if (left->kind != WRITE)
                continue;
            free_view(fault, left->from);
        }
}

static void end_view(struct fault_device *fault, const uint8_t *view)
{
    pthread_mutex_lock(&fault->lock);
    if (device_is_lost(&fault->base))
        drop_all(fault);
    for (uint32_t q = 0; q < DEVICE_QUEUES; q++)
        for (uint64_t i = fault->queues[q].begin; i < fault->queues[q].end; i++)
            assert(fault->queues[q].operations[i % OPERATIONS_MAX].to != view &&
                   "a view goes back when its read has run");
    free_view(fault, view);
    pthread_mutex_unlock(&fault->lock);
}

/* ---- device_ops ---- */

static void fault_close(struct device *device)
{
    struct fault_device *fault = fault_of(device);
    drop_all(fault);
    assert(fault_device_n_views(device) == 0 && "every view comes back");
    assert((fault_device_n_imports(device) == 0 || device_is_lost(device)) &&
           "and what was opened is closed");
    pthread_mutex_destroy(&fault->lock);
    free(fault);
}

static enum status allocate_shared(struct fault_device *fault, size_t bytes, uint8_t **base_out)
{
    struct shared *shared = fault->shared;
    while (shared->base)
        shared++;
    assert(shared < fault->shared + SHARED_MAX);
    int fd = memfd_create("fault-device", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        return STATUS_NO_MEMORY;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert(base != MAP_FAILED);
    *shared = (struct shared){base, fd};
    *base_out = base;
    return STATUS_OK;
}

static enum status fault_allocate(struct device *device, size_t bytes, uint8_t **base_out)
{
    if (bytes % DEVICE_EXPORT_BYTES == 0)
        return allocate_shared(fault_of(device), bytes, base_out);
    uint8_t *base = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!base)
        return STATUS_NO_MEMORY;
    memset(base, 0, bytes);
    *base_out = base;
    return STATUS_OK;
}

static struct shared *find_shared(struct fault_device *fault, const uint8_t *base)
{
    for (int i = 0; i < SHARED_MAX; i++)
        if (fault->shared[i].base == base)
            return &fault->shared[i];
    return NULL;
}

static void fault_free(struct device *device, uint8_t *base, size_t bytes)
{
    struct shared *shared = find_shared(fault_of(device), base);
    if (!shared) {
        free(base);
        return;
    }
    munmap(base, bytes);
    close(shared->fd);
    *shared = (struct shared){0};
}

static enum status fault_export(struct device *device, uint8_t *base, size_t bytes,
                                struct device_handle *handle_out, struct error *error)
{
    const struct shared *shared = find_shared(fault_of(device), base);
    (void)bytes, (void)error;
    assert(shared && "allocate's, whole");
    const struct handle handle = {getpid(), shared->fd};
    *handle_out = (struct device_handle){{0}};
    memcpy(handle_out, &handle, sizeof handle);
    return STATUS_OK;
}

/* Read only, and in another place each time. */
static enum status fault_import(struct device *device, const struct device_handle *theirs,
                                struct device_mapping *mapping_out, struct error *error)
{
    struct fault_device *fault = fault_of(device);
    char path[64];
    struct stat stat;
    struct handle handle;
    memcpy(&handle, theirs, sizeof handle);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.pid, handle.fd);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    void *base = fd >= 0 && fstat(fd, &stat) == 0 && stat.st_size > 0
                     ? mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_SHARED, fd, 0)
                     : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    if (base == MAP_FAILED)
        return error_set(error, STATUS_UNSUPPORTED, "the handle leads nowhere");
    *mapping_out = (struct device_mapping){base, (size_t)stat.st_size};
    pthread_mutex_lock(&fault->lock);
    struct device_mapping *place = fault->imports;
    while (place->base)
        place++;
    assert(place < fault->imports + IMPORTS_MAX);
    *place = *mapping_out;
    pthread_mutex_unlock(&fault->lock);
    return STATUS_OK;
}

static enum status fault_import_close(struct device *device, const struct device_mapping *mapping)
{
    struct fault_device *fault = fault_of(device);
    struct device_mapping *place = fault->imports;
    pthread_mutex_lock(&fault->lock);
    while (place->base != mapping->base)
        place++;
    assert(place < fault->imports + IMPORTS_MAX && "it was opened, and is closed once");
    *place = (struct device_mapping){0};
    for (uint32_t q = 0; q < DEVICE_QUEUES; q++)
        for (uint64_t i = fault->queues[q].begin; i < fault->queues[q].end; i++) {
            const uint8_t *from = fault->queues[q].operations[i % OPERATIONS_MAX].from;
            assert((from < mapping->base || from >= mapping->base + mapping->bytes) &&
                   "it is closed when every copy out of it has run");
        }
    munmap((void *)mapping->base, mapping->bytes);
    pthread_mutex_unlock(&fault->lock);
    return STATUS_OK;
}

static enum status fault_copy(struct device *device, enum device_queue queue, uint8_t *target,
                              const uint8_t *source, size_t bytes)
{
    return push(device, queue,
                (struct operation){.kind = COPY, .from = source, .to = target, .bytes = bytes});
}

static enum status fault_wrap(struct device *device, uint8_t *base, size_t bytes)
{
    (void)device, (void)base, (void)bytes;
    return STATUS_OK;
}

static void fault_touch(struct device *device, uint8_t *base, size_t bytes,
                        struct thread_pool *threads)
{
    (void)device, (void)base, (void)bytes, (void)threads; /* allocate wrote all of it */
}

static enum status fault_record(struct device *device, enum device_queue queue, uint64_t sequence)
{
    return push(device, queue, (struct operation){.kind = RECORD, .ticket = {queue, sequence}});
}

static enum status fault_after(struct device *device, enum device_queue queue,
                               struct device_ticket ticket)
{
    return push(device, queue, (struct operation){.kind = AFTER, .ticket = ticket});
}

static enum status fault_completed(struct device *device, enum device_queue queue,
                                   uint64_t *sequence_out)
{
    struct fault_device *fault = fault_of(device);
    if (!begin(fault, FAULT_ANY))
        return end(fault, STATUS_BUG);
    go_on(fault);
    *sequence_out = fault->queues[queue].completed;
    return end(fault, STATUS_OK);
}

static enum status fault_read(struct device *device, enum device_queue queue, const uint8_t *source,
                              size_t bytes, const uint8_t **view_out)
{
    uint8_t *view = new_view(fault_of(device), queue, bytes);
    if (!view)
        return STATUS_QUEUE_FULL;
    enum status status = push(
        device, queue,
        (struct operation){.kind = READ, .from = source, .to = view, .bytes = bytes});
    if (status != STATUS_OK)
        end_view(fault_of(device), view);
    else
        *view_out = view;
    return status;
}

static void fault_read_end(struct device *device, const uint8_t *view)
{
    end_view(fault_of(device), view);
}

static enum status fault_write_begin(struct device *device, uint8_t *target, size_t bytes,
                                     uint8_t **view_out)
{
    (void)target;
    *view_out = new_view(fault_of(device), DEVICE_COPY, bytes);
    return *view_out ? STATUS_OK : STATUS_QUEUE_FULL;
}

static enum status fault_write(struct device *device, enum device_queue queue, uint8_t *target,
                               uint8_t *view, size_t bytes)
{
    enum status status = push(
        device, queue,
        (struct operation){.kind = WRITE, .from = view, .to = target, .bytes = bytes});
    if (status != STATUS_OK)
        end_view(fault_of(device), view);
    return status;
}

static void fault_write_drop(struct device *device, uint8_t *view)
{
    end_view(fault_of(device), view);
}

static enum status fault_digest(struct device *device, enum device_queue queue,
                                const uint8_t *bytes, size_t n_bytes, uint32_t *digest_out)
{
    return push(
        device, queue,
        (struct operation){.kind = DIGEST, .from = bytes, .bytes = n_bytes, .digest = digest_out});
}

static const struct device_ops FAULT_OPS = {
    .close = fault_close,
    .allocate = fault_allocate,
    .free = fault_free,
    .wrap = fault_wrap,
    .touch = fault_touch,
    .record = fault_record,
    .after = fault_after,
    .completed = fault_completed,
    .read = fault_read,
    .read_end = fault_read_end,
    .write_begin = fault_write_begin,
    .write = fault_write,
    .write_drop = fault_write_drop,
    .digest = fault_digest,
    .export_memory = fault_export,
    .import_memory = fault_import,
    .import_close = fault_import_close,
    .copy = fault_copy,
};

/* ---- the test's side ---- */

struct device *fault_device_open(const struct fault_options *options)
{
    struct fault_device *fault = calloc(1, sizeof *fault);
    assert(fault);
    fault->base.ops = &FAULT_OPS;
    fault->base.name = "fault";
    fault->base.wait_limit_ns = options->wait_limit_ns;
    fault->base.wants_static_steps = options->wants_static_steps;
    fault->base.n_views = options->views_max;
    fault->options = *options;
    random_init(&fault->random, options->seed);
    pthread_mutex_init(&fault->lock, NULL);
    return &fault->base;
}

void fault_device_lose(struct device *device)
{
    struct fault_device *fault = fault_of(device);
    pthread_mutex_lock(&fault->lock);
    fault->is_told_to_fail = true;
    pthread_mutex_unlock(&fault->lock);
}

void fault_device_fail_at(struct device *device, uint64_t n)
{
    struct fault_device *fault = fault_of(device);
    pthread_mutex_lock(&fault->lock);
    fault->options.fails_at = fault->n_calls + n;
    pthread_mutex_unlock(&fault->lock);
}

void fault_device_arm(struct device *device, enum fault_call call, uint32_t n)
{
    atomic_store(&fault_of(device)->armed, (uint64_t)call << ARMED_CALL | n);
}

void fault_device_hang(struct device *device, uint64_t wait_limit_ns)
{
    struct fault_device *fault = fault_of(device);
    device->wait_limit_ns = wait_limit_ns;
    pthread_mutex_lock(&fault->lock);
    fault->is_hung = true;
    pthread_mutex_unlock(&fault->lock);
}

void fault_device_launch(struct device *device, enum device_queue queue, void (*run)(void *arg),
                         void *arg)
{
    enum status status = push(device, queue,
                              (struct operation){.kind = LAUNCH, .run = run, .arg = arg});
    assert(status == STATUS_OK);
    (void)status;
}

bool fault_device_drain(struct device *device)
{
    struct fault_device *fault = fault_of(device);
    bool is_empty = true;
    pthread_mutex_lock(&fault->lock);
    while (step(fault)) {
    }
    for (uint32_t q = 0; q < DEVICE_QUEUES; q++)
        is_empty &= fault->queues[q].begin == fault->queues[q].end;
    pthread_mutex_unlock(&fault->lock);
    return is_empty;
}

uint32_t fault_device_n_views(const struct device *device)
{
    struct fault_device *fault = fault_of(device);
    pthread_mutex_lock(&fault->lock);
    const uint32_t n = fault->n_views[DEVICE_COMPUTE] + fault->n_views[DEVICE_COPY];
    pthread_mutex_unlock(&fault->lock);
    return n;
}

uint32_t fault_device_n_imports(const struct device *device)
{
    struct fault_device *fault = fault_of(device);
    uint32_t n = 0;
    pthread_mutex_lock(&fault->lock);
    for (int i = 0; i < IMPORTS_MAX; i++)
        n += fault->imports[i].base != NULL;
    pthread_mutex_unlock(&fault->lock);
    return n;
}

uint64_t fault_device_n_calls(const struct device *device)
{
    struct fault_device *fault = fault_of(device);
    pthread_mutex_lock(&fault->lock);
    uint64_t n = fault->n_calls;
    pthread_mutex_unlock(&fault->lock);
    return n;
}
