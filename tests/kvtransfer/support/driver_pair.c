#include "tests/kvtransfer/support/driver_pair.h"

#include "base/clock.h"
#include "base/random.h"
#include "kvtransfer/drivers/ucx/ucx_process.h"
#include "kvtransfer/drivers/ucx/ucx_transport.h"
#include "tests/device/fault_device.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum order_kind { ADMIT, OPEN, PUBLISH, CLOSE, USAGE, PORT, STOP };

struct order {
    enum order_kind kind;
    struct transfer_id id;
    uint64_t reader_incarnation;
    uint32_t first, n, first_block;
    struct transport_address address;
};

struct reply {
    uint64_t a, b;
    struct port_figures port;
};

struct transfer_id transfer_of(uint64_t number)
{
    struct transfer_id id = {{0}};
    memcpy(id.bytes, &number, sizeof number);
    memcpy(id.bytes + 8, "transfer", 8);
    return id;
}

void fill_block(uint8_t *block, size_t block_bytes, uint32_t id)
{
    struct random random;
    random_init(&random, id * 77u + 5);
    size_t i = 0;
    for (; i + 8 <= block_bytes; i += 8) {
        uint64_t value = random_u64(&random);
        memcpy(block + i, &value, sizeof value);
    }
    for (; i < block_bytes; i++)
        block[i] = (uint8_t)random_u64(&random);
}

uint32_t count_descriptors(void)
{
    uint32_t n = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (directory && readdir(directory))
        n++;
    if (directory)
        closedir(directory);
    return n;
}

uint64_t resident_kib(void)
{
    unsigned long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%lu %lu", &total, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

/* Over cuda-ipc one with memory that others can map. */
static struct device *new_device(const struct pair_options *options)
{
    struct device *device;
    struct error error;
    uint64_t seed = options->device_seed;
    if (seed == 0 && options->driver == KV_CUDA_IPC)
        seed = 1;
    if (seed != 0)
        return fault_device_open(&(struct fault_options){.seed = seed, .steps_max = 3});
    if (device_open("cpu", &device, &error) != STATUS_OK)
        abort();
    return device;
}

/* memory is the device's where the driver wants that. */
static struct block_pool *new_pool(const struct pair_options *options,
                                   const struct transport *transport, struct device *device,
                                   struct device_memory *memory)
{
    struct block_pool *pool;
    size_t bytes = driver_pool_bytes(options->driver, options->n_blocks * options->block_bytes);
    void *shared = driver_pool(transport, options->driver);
    if (options->driver == KV_CUDA_IPC) {
        if (device_allocate(device, DEVICE_KV, bytes, memory) != STATUS_OK)
            abort();
        shared = memory->base;
    }
    enum status status = shared ? block_pool_create_in(shared, options->n_blocks,
                                                       options->block_bytes, &pool)
                                : block_pool_create(options->n_blocks, options->block_bytes, &pool);
    if (status != STATUS_OK)
        abort();
    return pool;
}

static struct transport *open_transport(const struct pair_options *options, uint64_t incarnation,
                                        size_t pool_bytes, struct device *device)
{
    struct transport *transport;
    struct error error = {""};
    ucx_process_init();
    const struct driver_options wanted = {.driver = options->driver,
                                          .incarnation = incarnation,
                                          .net_devices = "lo",
                                          .peers_max = 32,
                                          .gets_max = 256,
                                          .reads_max = options->reads_max ? options->reads_max
                                                                          : 512,
                                          .pool_bytes = pool_bytes,
                                          .device = device};
    if (driver_open(&wanted, &transport, &error) != STATUS_OK) {
        fprintf(stderr, "driver_open: %s\n", error.text);
        abort();
    }
    return transport;
}

/* ---- the owner's process ---- */

static void transfer_all(int fd, void *data, size_t bytes, bool out)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = out ? send(fd, (char *)data + done, bytes - done, MSG_NOSIGNAL)
                        : recv(fd, (char *)data + done, bytes - done, 0);
        if (n <= 0)
            _exit(9);
        done += (size_t)n;
    }
}

static void on_owner_event(void *arg)
{
    sem_post(arg);
}

static uint64_t wait_quiet(struct kv_sender *sender, sem_t *happened)
{
    struct kv_sender_event event;
    while (!kv_sender_next_event(sender, &event))
        sem_wait(happened);
    return event.bytes_sent;
}

static struct reply obey(const struct order *order, struct transport *transport,
                         struct kv_sender *sender, sem_t *happened)
{
    struct reply reply = {0};
    uint32_t ids[4096];
    switch (order->kind) {
    case ADMIT:
        do /* its thread is running: there will be room */
            reply.a = kv_sender_admit(sender, &order->address);
        while (reply.a == STATUS_QUEUE_FULL);
        break;
    case OPEN:
        reply.a = kv_sender_open(sender, &order->id, order->reader_incarnation);
        break;
    case PUBLISH:
        for (uint32_t i = 0; i < order->n; i++)
            ids[i] = order->first_block + i;
        kv_sender_publish(sender, &order->id, order->first, ids, order->n);
        break;
    case CLOSE:
        kv_sender_close(sender, &order->id);
        reply.a = wait_quiet(sender, happened);
        break;
    case USAGE:
        reply = (struct reply){.a = count_descriptors(), .b = resident_kib()};
        break;
    case PORT:
        port_counts_read(&transport->port, &reply.port);
        break;
    case STOP:
        break;
    }
    return reply;
}

static void run_owner(int fd, const struct pair_options *options)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    size_t pool_bytes = options->n_blocks * options->block_bytes;
    struct device *device = new_device(options);
    struct device_memory memory = {0};
    struct error error = {""};
    struct transport *transport = open_transport(options, options->owner_incarnation, pool_bytes,
                                                 device);
    struct block_pool *pool = new_pool(options, transport, device, &memory);
    if (driver_lend(transport, options->driver, &memory, &error) != STATUS_OK)
        abort();
    for (uint32_t id = 0; id < options->n_blocks; id++)
        fill_block(block_pool_data(pool, id), options->block_bytes, id);

    struct kv_sender *sender;
    const struct kv_sender_options sender_options = {.transfers_max = 64,
                                                     .blocks_max = 1024,
                                                     .device = device,
                                                     .pool_base = block_pool_base(pool),
                                                     .block_bytes = options->block_bytes,
                                                     .n_blocks = options->n_blocks,
                                                     .readers_max = 32,
                                                     .quiet_limit_ns = options->quiet_limit_ns};
    sem_t happened;
    sem_init(&happened, 0, 0);
    if (kv_sender_create(&sender_options, transport, &sender) != STATUS_OK)
        abort();
    kv_sender_on_event(sender, on_owner_event, &happened);
    struct transfer_thread *thread;
    if (transfer_thread_start(&(struct transfer_thread_options){.name = "owner-transfer",
                                                                .transport = transport,
                                                                .sender = sender},
                              &thread) != STATUS_OK)
        abort();

    struct transport_address address;
    transport->ops->address(transport, &address);
    transfer_all(fd, &address, sizeof address, true);
    struct order order;
    do {
        transfer_all(fd, &order, sizeof order, false);
        struct reply reply = obey(&order, transport, sender, &happened);
        if (order.kind != STOP)
            transfer_all(fd, &reply, sizeof reply, true);
    } while (order.kind != STOP);

    transfer_thread_stop(thread);
    kv_sender_destroy(sender);
    transport->ops->close(transport);
    block_pool_destroy(pool);
    device_free(device, &memory);
    device_close(device);
    sem_destroy(&happened);
    close(fd);
    exit(0); /* the sanitizers look for leaks */
}

/* ---- orders ---- */

void owner_start(struct owner *owner, const struct pair_options *options)
{
    int fds[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    owner->pid = fork();
    cr_assert(owner->pid >= 0);
    if (owner->pid == 0) {
        close(fds[0]);
        run_owner(fds[1], options);
    }
    close(fds[1]);
    owner->socket = fds[0];
    ssize_t n = recv(owner->socket, &owner->address, sizeof owner->address, MSG_WAITALL);
    cr_assert_eq(n, (ssize_t)sizeof owner->address, "the owner did not start");
}

static struct reply tell(struct owner *owner, const struct order *order)
{
    struct reply reply;
    cr_assert_eq(send(owner->socket, order, sizeof *order, MSG_NOSIGNAL), (ssize_t)sizeof *order);
    struct pollfd fd = {owner->socket, POLLIN, 0};
    cr_assert_eq(poll(&fd, 1, (int)(WAIT_NS / NS_PER_MS)), 1, "the owner does not answer");
    cr_assert_eq(recv(owner->socket, &reply, sizeof reply, MSG_WAITALL), (ssize_t)sizeof reply,
                 "the owner is gone");
    return reply;
}

void owner_admit(struct owner *owner, const struct transport_address *reader)
{
    struct order order = {.kind = ADMIT, .address = *reader};
    cr_assert_eq(tell(owner, &order).a, STATUS_OK);
}

void owner_open(struct owner *owner, const struct transfer_id *id, uint64_t reader_incarnation)
{
    struct order order = {.kind = OPEN, .id = *id, .reader_incarnation = reader_incarnation};
    cr_assert_eq(tell(owner, &order).a, STATUS_OK);
}

void owner_publish(struct owner *owner, const struct transfer_id *id, uint32_t first, uint32_t n,
                   uint32_t first_block)
{
    struct order order = {
        .kind = PUBLISH, .id = *id, .first = first, .n = n, .first_block = first_block};
    tell(owner, &order);
}

uint64_t owner_close(struct owner *owner, const struct transfer_id *id)
{
    struct order order = {.kind = CLOSE, .id = *id};
    return tell(owner, &order).a;
}

void owner_usage(struct owner *owner, uint32_t *n_descriptors, uint64_t *kib)
{
    struct order order = {.kind = USAGE};
    struct reply reply = tell(owner, &order);
    *n_descriptors = (uint32_t)reply.a;
    *kib = reply.b;
}

struct port_figures owner_port(struct owner *owner)
{
    struct order order = {.kind = PORT};
    return tell(owner, &order).port;
}

uint64_t owner_bad_messages(struct owner *owner)
{
    struct port_figures port = owner_port(owner);
    uint64_t sum = port.bad_messages;
    for (int i = 0; i < PORT_REFUSALS; i++)
        sum += port.refused[i];
    return sum;
}

void owner_kill(struct owner *owner, int signal_number)
{
    cr_assert_eq(kill(owner->pid, signal_number), 0);
    if (signal_number != SIGKILL)
        return;
    cr_assert_eq(waitpid(owner->pid, NULL, 0), owner->pid);
    close(owner->socket);
    owner->pid = 0;
}

void owner_stop(struct owner *owner)
{
    int how;
    struct order order = {.kind = STOP};
    cr_assert_eq(send(owner->socket, &order, sizeof order, MSG_NOSIGNAL), (ssize_t)sizeof order);
    cr_assert_eq(waitpid(owner->pid, &how, 0), owner->pid);
    cr_assert(WIFEXITED(how) && WEXITSTATUS(how) == 0, "the owner ended with %#x", how);
    close(owner->socket);
    owner->pid = 0;
}

/* ---- the reader ---- */

static void on_reader_event(void *arg)
{
    struct reader *reader = arg;
    sem_post(&reader->happened);
}

void reader_start(struct reader *reader, const struct pair_options *options, uint64_t incarnation)
{
    *reader = (struct reader){0};
    sem_init(&reader->happened, 0, 0);
    reader->device = new_device(options);
    reader->transport = open_transport(options, incarnation, 0, reader->device);
    reader->pool = new_pool(options, reader->transport, reader->device, &reader->memory);
    const struct kv_receiver_options receiver_options = {
        .transfers_max = 64,
        .blocks_max = 1024,
        .peers_max = options->peers_max ? options->peers_max : 4,
        .window_max = options->window_max,
        .device = reader->device,
        .pool_base = block_pool_base(reader->pool),
        .block_bytes = options->block_bytes,
        .n_blocks = options->n_blocks,
        .quiet_limit_ns = options->quiet_limit_ns};
    cr_assert_eq(kv_receiver_create(&receiver_options, reader->transport, &reader->receiver),
                 STATUS_OK);
    kv_receiver_on_event(reader->receiver, on_reader_event, reader);
    reader->transport->ops->address(reader->transport, &reader->address);
    const struct transfer_thread_options thread_options = {
        .name = "reader-transfer", .transport = reader->transport, .receiver = reader->receiver};
    cr_assert_eq(transfer_thread_start(&thread_options, &reader->thread), STATUS_OK);
}

void reader_stop(struct reader *reader)
{
    transfer_thread_stop(reader->thread);
    kv_receiver_destroy(reader->receiver);
    reader->transport->ops->close(reader->transport);
    block_pool_destroy(reader->pool);
    device_free(reader->device, &reader->memory);
    device_close(reader->device);
    sem_destroy(&reader->happened);
}

static void wait_happened(struct reader *reader)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(WAIT_NS / NS_PER_S);
    cr_assert_eq(sem_timedwait(&reader->happened, &until), 0, "nothing happens at the reader");
}

enum status reader_wait(struct reader *reader, enum kv_receiver_event_kind kind)
{
    struct kv_receiver_event event;
    for (;;) {
        while (!kv_receiver_next_event(reader->receiver, &event))
            wait_happened(reader);
        reader->n_blocks = event.n_blocks;
        reader->bytes = event.bytes;
        if (event.kind == kind)
            return event.status;
        cr_assert(event.kind == KV_ARRIVED || kind == KV_QUIET, "failed with %s",
                  status_name(event.status));
    }
}

void reader_wait_arrived(struct reader *reader, uint32_t n_blocks)
{
    do
        reader_wait(reader, KV_ARRIVED);
    while (reader->n_blocks < n_blocks);
    cr_assert_eq(reader->n_blocks, n_blocks);
}

void reader_fetch(struct reader *reader, const struct transfer_id *id, uint32_t first, uint32_t n,
                  uint32_t first_remote, uint32_t first_local, const uint32_t *digests)
{
    uint32_t remote[1024], local[1024];
    cr_assert(n <= 1024);
    for (uint32_t i = 0; i < n; i++) {
        remote[i] = first_remote + i;
        local[i] = first_local + i;
    }
    kv_receiver_fetch(reader->receiver, id, &(struct kv_fetch){first, n, remote, local, digests});
}

void reader_check_block(struct reader *reader, uint32_t local, uint32_t remote)
{
    size_t block_bytes = block_pool_block_bytes(reader->pool);
    uint8_t *expected = malloc(block_bytes);
    fill_block(expected, block_bytes, remote);
    cr_assert_eq(memcmp(block_pool_data(reader->pool, local), expected, block_bytes), 0,
                 "block %u differs from block %u of the owner", local, remote);
    free(expected);
}

enum status reader_read_block(struct reader *reader, const struct transport_address *address,
                              uint32_t block)
{
    static uint64_t n_transfers;
    struct transfer_id id = transfer_of(++n_transfers);
    struct kv_receiver_event event = {0};
    uint64_t until_ns = clock_now_ns() + WAIT_NS;
    cr_assert_eq(kv_receiver_open(reader->receiver, &id, address, NULL), STATUS_OK);
    reader_fetch(reader, &id, 0, 1, block, 0, NULL);
    while (event.kind != KV_FAILED && event.n_blocks < 1) {
        kv_receiver_next_event(reader->receiver, &event);
        cr_assert_lt(clock_now_ns(), until_ns, "neither there nor refused");
    }
    enum status status = event.kind == KV_FAILED ? event.status : STATUS_OK;
    if (status == STATUS_OK)
        reader_check_block(reader, 0, block);
    kv_receiver_close(reader->receiver, &id);
    reader_wait(reader, KV_QUIET);
    kv_receiver_drop_peer(reader->receiver, address->incarnation);
    return status;
}

/* ---- both ---- */

void pair_start(struct pair *pair, const struct pair_options *options)
{
    pair->options = *options;
    owner_start(&pair->owner, options);
    reader_start(&pair->reader, options, 1000);
    owner_admit(&pair->owner, &pair->reader.address);
}

void pair_stop(struct pair *pair)
{
    reader_stop(&pair->reader);
    if (pair->owner.pid)
        owner_stop(&pair->owner);
}
