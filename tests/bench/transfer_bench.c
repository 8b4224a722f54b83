/*
 * transfer_bench - two processes on one host: KV blocks through kv_sender and kv_receiver, against
 * plain eager active messages of UCX with the same piece size, in turns, in one run.
 *
 *     transfer_bench [--am-tcp|--shm-read|--unix|--tls|--cuda-ipc] [--device=NAME] [--json]
 *
 * Both processes have their blocks on the device, cpu unless it is named. cuda-ipc needs a GPU.
 *
 *     bandwidth   64 MiB in blocks of 256 KiB, from the engine's fetch to the last ARRIVED
 *     raw         64 MiB in messages of 256 KiB, copied by the handler to where they belong, with
 *                 UCX's options of the hand-over
 *     zcopy       the same, and UCX may send from the owner's memory without a copy, which is its
 *                 default and which the hand-over must not use (ucx_options.c)
 *     cpu         seconds of both processes for a GB of `bandwidth`
 *     converted   the same blocks, 16 tokens each, into blocks of 32 tokens, through the stage; only on the CPU
 *     latency     512 tokens of the demo model: 16 blocks of 32 tokens, 1,280 B a token
 *
 * Medians; a ratio is the median of the ratios of neighbours. The first child owns the blocks, the
 * second only sends raw messages without copies; they are forked before any UCX call.
 */
#include "base/clock.h"
#include "base/log/log.h"
#include "kvcache/block_pool.h"
#include "kvtransfer/driver.h"
#include "kvtransfer/transfer_plan.h"
#include "kvtransfer/transfer_thread.h"

#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#define TOTAL_BYTES (64u << 20)
#define RAW_BYTES   PIECE_BYTES_MAX
#define STAGE_BYTES (4u << 20)

enum {
    BLOCK_TOKENS = 32,
    DEMO_TOKEN_BYTES = 1280,
    DEMO_TOKENS = 512,
    N_ROUNDS = 25,
    N_LATENCIES = 300,
    RAW_WINDOW = 32,
    AM_GO = 1,
    AM_RAW = 2
};

static void check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "transfer_bench: %s\n", what);
    exit(1);
}

/* ---- raw UCX ---- */

struct raw {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h ep;
    int epoll_fd;
    uint8_t *memory; /* [TOTAL_BYTES] */
    uint32_t n_arrived, n_out;
    bool go;
};

static void raw_step(struct raw *raw)
{
    struct epoll_event event;
    if (ucp_worker_progress(raw->worker) == 0 && ucp_worker_arm(raw->worker) == UCS_OK)
        epoll_wait(raw->epoll_fd, &event, 1, 1000);
}

static ucs_status_t on_go(void *arg, const void *header, size_t header_bytes, void *data,
                          size_t bytes, const ucp_am_recv_param_t *param)
{
    (void)header, (void)header_bytes, (void)data, (void)bytes, (void)param;
    ((struct raw *)arg)->go = true;
    return UCS_OK;
}

static ucs_status_t on_raw(void *arg, const void *header, size_t header_bytes, void *data,
                           size_t bytes, const ucp_am_recv_param_t *param)
{
    struct raw *raw = arg;
    uint32_t index;
    (void)param;
    memcpy(&index, header, header_bytes < sizeof index ? header_bytes : sizeof index);
    memcpy(raw->memory + (size_t)index * RAW_BYTES, data, bytes);
    raw->n_arrived++;
    return UCS_OK;
}

static void on_raw_sent(void *request, ucs_status_t status, void *arg)
{
    check(status == UCS_OK, "raw send");
    ((struct raw *)arg)->n_out--;
    ucp_request_free(request);
}

static void raw_send(struct raw *raw, unsigned id, const uint32_t *header, const void *data,
                     size_t bytes)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                       UCP_OP_ATTR_FIELD_USER_DATA |
                                                       UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_AM_SEND_FLAG_EAGER,
                                       .cb.send = on_raw_sent,
                                       .user_data = raw};
    void *request = ucp_am_send_nbx(raw->ep, id, header, header ? sizeof *header : 0, data, bytes,
                                    &param);
    check(!UCS_PTR_IS_ERR(request), "raw send");
    raw->n_out += request != NULL;
}

static void raw_handler(struct raw *raw, unsigned id, ucp_am_recv_callback_t callback)
{
    const ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS,
        .id = id,
        .cb = callback,
        .arg = raw,
        .flags = UCP_AM_FLAG_WHOLE_MSG};
    check(ucp_worker_set_am_recv_handler(raw->worker, &param) == UCS_OK, "raw handler");
}

static void raw_open(struct raw *raw, bool zcopy, int fd)
{
    const char *const OPTIONS[][2] = {
        {"TLS", "tcp,self"},     {"NET_DEVICES", "lo"},  {"TX_SEG_SIZE", "64K"},
        {"RX_SEG_SIZE", "256K"}, {"RNDV_THRESH", "inf"}, {"ZCOPY_THRESH", zcopy ? "auto" : "inf"}};
    ucp_config_t *config;
    check(ucp_config_read(NULL, NULL, &config) == UCS_OK, "raw configuration");
    for (size_t i = 0; i < sizeof OPTIONS / sizeof *OPTIONS; i++)
        check(ucp_config_modify(config, OPTIONS[i][0], OPTIONS[i][1]) == UCS_OK, OPTIONS[i][0]);
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};
    check(ucp_init(&params, config, &raw->context) == UCS_OK, "raw context");
    ucp_config_release(config);
    const ucp_worker_params_t worker_params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                               .thread_mode = UCS_THREAD_MODE_SINGLE};
    check(ucp_worker_create(raw->context, &worker_params, &raw->worker) == UCS_OK, "raw worker");
    int event_fd;
    check(ucp_worker_get_efd(raw->worker, &event_fd) == UCS_OK, "raw event descriptor");
    raw->epoll_fd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    check(epoll_ctl(raw->epoll_fd, EPOLL_CTL_ADD, event_fd, &event) == 0, "epoll");
    raw_handler(raw, AM_GO, on_go);
    raw_handler(raw, AM_RAW, on_raw);
    raw->memory = malloc(TOTAL_BYTES);
    check(raw->memory != NULL, "memory");
    memset(raw->memory, 1, TOTAL_BYTES);

    ucp_worker_attr_t own = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
    check(ucp_worker_query(raw->worker, &own) == UCS_OK, "raw address");
    uint8_t theirs[1024], mine[1024] = {0};
    memcpy(mine, own.address, own.address_length);
    ucp_worker_release_address(raw->worker, own.address);
    check(send(fd, mine, sizeof mine, 0) == (ssize_t)sizeof mine, "send");
    check(recv(fd, theirs, sizeof theirs, MSG_WAITALL) == (ssize_t)sizeof theirs, "receive");
    const ucp_ep_params_t ep = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                              UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                .address = (const ucp_address_t *)(const void *)theirs,
                                .err_mode = UCP_ERR_HANDLING_MODE_PEER};
    check(ucp_ep_create(raw->worker, &ep, &raw->ep) == UCS_OK, "raw endpoint");
}

/* The child's main thread, for ever: on "go" sends all. */
static void raw_serve(struct raw *raw)
{
    static uint32_t headers[TOTAL_BYTES / RAW_BYTES];
    for (;;) {
        while (!raw->go)
            raw_step(raw);
        raw->go = false;
        for (uint32_t i = 0; i < TOTAL_BYTES / RAW_BYTES; i++) {
            while (raw->n_out >= RAW_WINDOW)
                raw_step(raw);
            headers[i] = i;
            raw_send(raw, AM_RAW, &headers[i], raw->memory + (size_t)i * RAW_BYTES, RAW_BYTES);
        }
        while (raw->n_out > 0)
            raw_step(raw);
    }
}

static double raw_round(struct raw *raw)
{
    uint64_t start_ns = clock_now_ns();
    raw->n_arrived = 0;
    raw_send(raw, AM_GO, NULL, NULL, 0);
    while (raw->n_arrived < TOTAL_BYTES / RAW_BYTES)
        raw_step(raw);
    return (double)(clock_now_ns() - start_ns);
}

/* ---- the hand-over ---- */

static const char *bench_device = "cpu";

struct side {
    struct device *device;
    struct device_memory memory; /* of the pool, on a device with memory of its own */
    struct transport *transport;
    struct block_pool *pool;
    struct kv_sender *sender;
    struct kv_receiver *receiver;
    struct transfer_thread *thread;
    struct transport_address address;
    sem_t happened;
};

static void on_event(void *arg)
{
    sem_post(arg);
}

/* The transport's memory, if it has any. */
static void pool_open(struct side *side, enum kv_driver driver, size_t block_bytes,
                      uint32_t n_blocks)
{
    const size_t bytes = driver_pool_bytes(driver, n_blocks * block_bytes);
    void *shared = driver_pool(side->transport, driver);
    const bool is_host = device_reads_host(side->device);
    check(is_host || !shared, "this driver needs blocks in the host's memory");
    if (!is_host)
        check(device_allocate(side->device, DEVICE_KV, bytes, &side->memory) == STATUS_OK,
              "device memory");
    void *base = is_host ? shared : side->memory.base;
    check((base ? block_pool_create_in(base, n_blocks, block_bytes, &side->pool)
                : block_pool_create(n_blocks, block_bytes, &side->pool)) == STATUS_OK,
          "pool");
}

static void side_open(struct side *side, enum kv_driver driver, size_t block_bytes,
                      uint32_t n_blocks, bool is_owner, int fd, struct transport_address *theirs)
{
    struct error error = {""};
    check(device_open(bench_device, &side->device, &error) == STATUS_OK, error.text);
    const struct driver_options options = {.driver = driver,
                                           .incarnation = is_owner ? 2 : 1,
                                           .net_devices = "lo",
                                           .peers_max = 8,
                                           .gets_max = 256,
                                           .reads_max = 256,
                                           .pool_bytes = is_owner ? n_blocks * block_bytes : 0,
                                           .device = side->device};
    if (driver_open(&options, &side->transport, &error) != STATUS_OK)
        check(false, error.text);
    pool_open(side, driver, block_bytes, n_blocks);
    if (is_owner && driver_lend(side->transport, driver, &side->memory, &error) != STATUS_OK)
        check(false, error.text);
    if (device_reads_host(side->device))
        memset(block_pool_base(side->pool), is_owner, n_blocks * block_bytes);
    sem_init(&side->happened, 0, 0);
    const struct kv_sender_options sender = {.transfers_max = 16,
                                             .blocks_max = n_blocks,
                                             .device = side->device,
                                             .pool_base = block_pool_base(side->pool),
                                             .block_bytes = block_bytes,
                                             .n_blocks = n_blocks};
    const struct kv_receiver_options receiver = {.transfers_max = 16,
                                                 .blocks_max = n_blocks,
                                                 .peers_max = 4,
                                                 .window_max = 32,
                                                 .device = side->device,
                                                 .pool_base = block_pool_base(side->pool),
                                                 .block_bytes = block_bytes,
                                                 .n_blocks = n_blocks,
                                                 .stage_bytes = 16 * STAGE_BYTES,
                                                 .quiet_limit_ns = NS_PER_S};
    if (is_owner)
        check(kv_sender_create(&sender, side->transport, &side->sender) == STATUS_OK, "sender");
    else
        check(kv_receiver_create(&receiver, side->transport, &side->receiver) == STATUS_OK,
              "receiver");
    if (side->receiver)
        kv_receiver_on_event(side->receiver, on_event, &side->happened);
    side->transport->ops->address(side->transport, &side->address);
    check(send(fd, &side->address, sizeof side->address, 0) == (ssize_t)sizeof side->address,
          "send");
    check(recv(fd, theirs, sizeof *theirs, MSG_WAITALL) == (ssize_t)sizeof *theirs, "receive");
    const struct transfer_thread_options thread = {.name = "bench-transfer",
                                                   .transport = side->transport,
                                                   .sender = side->sender,
                                                   .receiver = side->receiver};
    check(transfer_thread_start(&thread, &side->thread) == STATUS_OK, "thread");
}

/* UCX ends before main's threads do, and badly; and a device is given back. */
static void side_stop(struct side *side)
{
    transfer_thread_stop(side->thread);
    kv_receiver_destroy(side->receiver);
    if (strcmp(side->transport->ops->name, driver_name(KV_CUDA_IPC)) == 0)
        side->transport->ops->close(side->transport); /* before its device */
    device_free(side->device, &side->memory);
    device_close(side->device);
}

static struct kv_receiver_event next_event(struct side *side)
{
    struct kv_receiver_event event;
    while (!kv_receiver_next_event(side->receiver, &event))
        sem_wait(&side->happened);
    return event;
}

/* One whole transfer of n blocks; the time from fetch to the last ARRIVED. */
static double kv_round(struct side *side, const struct transport_address *owner, uint64_t number,
                       uint32_t n, const struct kv_other_blocks *others)
{
    static uint32_t ids[4096];
    struct transfer_id id = {{0}};
    struct kv_receiver_event event;
    memcpy(id.bytes, &number, sizeof number);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = i;
    check(kv_receiver_open(side->receiver, &id, owner, others) == STATUS_OK, "open");
    uint64_t start_ns = clock_now_ns();
    kv_receiver_fetch(side->receiver, &id,
                      &(struct kv_fetch){0, n, ids, others ? NULL : ids, NULL});
    do {
        event = next_event(side);
        check(event.kind == KV_ARRIVED, "transfer failed");
    } while (event.n_blocks < n);
    double took_ns = (double)(clock_now_ns() - start_ns);
    kv_receiver_close(side->receiver, &id);
    while (next_event(side).kind != KV_QUIET)
        continue;
    return took_ns;
}

/* The owner publishes every transfer that there will be. */
static void publish_all(struct side *side, uint64_t first, uint32_t n_transfers, uint32_t n)
{
    static uint32_t ids[4096];
    for (uint32_t i = 0; i < n; i++)
        ids[i] = i;
    for (uint64_t t = first; t < first + n_transfers; t++) {
        struct transfer_id id = {{0}};
        memcpy(id.bytes, &t, sizeof t);
        enum status status;
        do
            status = kv_sender_open(side->sender, &id, 1);
        while (status == STATUS_QUEUE_FULL);
        check(status == STATUS_OK, "open");
        kv_sender_publish(side->sender, &id, 0, ids, n);
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

struct load {
    size_t block_bytes;
    uint32_t n_blocks, n_rounds;
};

static const struct load BANDWIDTH = {PIECE_BYTES_MAX, TOTAL_BYTES / PIECE_BYTES_MAX, N_ROUNDS};
static const struct load LATENCY = {BLOCK_TOKENS * DEMO_TOKEN_BYTES, DEMO_TOKENS / BLOCK_TOKENS,
                                    N_LATENCIES};

static void run_raw_owner(int fd)
{
    struct raw raw = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    raw_open(&raw, true, fd);
    raw_serve(&raw);
}

/* One transfer a load, open from the start and read again and again. */
static void run_owner(int fd, enum kv_driver driver)
{
    struct side sides[2] = {0};
    struct transport_address reader;
    struct raw raw = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    raw_open(&raw, false, fd);
    for (int i = 0; i < 2; i++) {
        const struct load *load = i ? &LATENCY : &BANDWIDTH;
        side_open(&sides[i], driver, load->block_bytes, load->n_blocks, true, fd, &reader);
        check(kv_sender_admit(sides[i].sender, &reader) == STATUS_OK, "admit");
        publish_all(&sides[i], 1, 1, load->n_blocks);
    }
    char ready = 'r';
    check(send(fd, &ready, 1, 0) == 1, "send");
    raw_serve(&raw);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, compare);
    return values[n / 2];
}

struct figures {
    double raw_ns[N_ROUNDS], zcopy_ns[N_ROUNDS], kv_ns[N_ROUNDS];
    double ratio[N_ROUNDS], zcopy_ratio[N_ROUNDS];
    double latency_ns[N_LATENCIES];
    double cpu_s[N_ROUNDS]; /* of a round of the hand-over */
    double converted_ns[N_ROUNDS], converted_ratio[N_ROUNDS];
};

static void report(struct figures *f, bool json, const char *driver)
{
    for (int i = 0; i < N_ROUNDS; i++) {
        f->ratio[i] = f->raw_ns[i] / f->kv_ns[i];
        f->zcopy_ratio[i] = f->zcopy_ns[i] / f->kv_ns[i];
        f->converted_ratio[i] = f->converted_ns[i] / f->kv_ns[i];
    }
    double raw = TOTAL_BYTES / median(f->raw_ns, N_ROUNDS);
    double zcopy = TOTAL_BYTES / median(f->zcopy_ns, N_ROUNDS);
    double kv = TOTAL_BYTES / median(f->kv_ns, N_ROUNDS);
    double ratio = median(f->ratio, N_ROUNDS), zcopy_ratio = median(f->zcopy_ratio, N_ROUNDS);
    double cpu = median(f->cpu_s, N_ROUNDS) / TOTAL_BYTES * 1e9;
    const double converted = median(f->converted_ratio, N_ROUNDS);
    double p50 = median(f->latency_ns, N_LATENCIES) / 1e3;
    double p99 = f->latency_ns[N_LATENCIES * 99 / 100] / 1e3;
    if (json) {
        printf(
            "{\"driver\": \"%s\", \"raw_gb_s\": %.3f, \"raw_zcopy_gb_s\": %.3f, "
            "\"kv_gb_s\": %.3f, \"ratio\": %.3f, \"zcopy_ratio\": %.3f, \"cpu_s_per_gb\": %.3f, "
            "\"converted_ratio\": %.3f, \"tokens512_us_p50\": %.1f, \"tokens512_us_p99\": %.1f}\n",
            driver, raw, zcopy, kv, ratio, zcopy_ratio, cpu, converted, p50, p99);
        return;
    }
    printf("%-10s  %8s  %10s  %8s  %6s  %8s  %8s  %14s  %14s\n", "driver", "raw GB/s", "zcopy GB/s",
           "kv GB/s", "kv/raw", "kv/zcopy", "cpu s/GB", "512 tokens p50", "512 tokens p99");
    printf("%-10s  %8.2f  %10.2f  %8.2f  %6.2f  %8.2f  %8.3f  %11.0f us  %11.0f us\n", driver, raw,
           zcopy, kv, ratio, zcopy_ratio, cpu, p50, p99);
    printf("%-10s  blocks of 16 tokens into blocks of 32: %.2f of the time of equal blocks\n",
           driver, converted);
}

/* Of this process and the owner. */
static double cpu_seconds(pid_t owner)
{
    struct timespec ours, theirs;
    clockid_t clock;
    check(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ours) == 0, "clock");
    check(clock_getcpuclockid(owner, &clock) == 0 && clock_gettime(clock, &theirs) == 0, "clock");
    return (double)(ours.tv_sec + theirs.tv_sec) + (double)(ours.tv_nsec + theirs.tv_nsec) / 1e9;
}

static pid_t fork_child(int *fd_out, int *child_fd_out)
{
    int fds[2];
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0, "socketpair");
    pid_t child = fork();
    check(child >= 0, "fork");
    *fd_out = fds[0];
    *child_fd_out = fds[1];
    return child;
}

/* Blocks of BANDWIDTH as they would be of a model of eight layers, and a pool of blocks twice as long. */
static const struct geometry SHORT = {
    .n_layers = 8, .n_kv_heads = 4, .head_dim = 128, .block_tokens = 16, .dtype = KV_BF16};

struct target {
    struct transfer_plan plan;
    uint8_t *spans[TOTAL_BYTES / PIECE_BYTES_MAX];
};

static void put(void *arg, uint32_t index, const uint8_t *block)
{
    const struct target *target = arg;
    transfer_plan_put(&target->plan, 0, block, index * SHORT.block_tokens,
                      &(struct transfer_target){0, UINT32_MAX, 0, target->spans});
}

static void fill_target(const struct side *side, struct target *target)
{
    struct geometry ours = SHORT;
    ours.block_tokens *= 2;
    check(geometry_block_bytes(&SHORT) == BANDWIDTH.block_bytes, "block");
    target->plan = transfer_plan_of(&SHORT, &ours, NULL);
    for (uint32_t i = 0; i < BANDWIDTH.n_blocks / 2; i++)
        target->spans[i] = block_pool_base(side->pool) + i * geometry_block_bytes(&ours);
}

static void measure(struct figures *f, struct raw raws[2], struct side sides[2],
                    const struct transport_address owners[2], pid_t owner)
{
    static struct target target;
    const struct kv_other_blocks others = {BANDWIDTH.block_bytes, put, &target};
    const bool converts = device_reads_host(sides[0].device);
    fill_target(&sides[0], &target);
    for (int i = -3; i < N_ROUNDS; i++) {
        double a = raw_round(&raws[0]);
        double cpu = cpu_seconds(owner);
        double b = kv_round(&sides[0], &owners[0], 1, BANDWIDTH.n_blocks, NULL);
        cpu = cpu_seconds(owner) - cpu;
        double c = raw_round(&raws[1]);
        double d = !converts ? b : kv_round(&sides[0], &owners[0], 1, BANDWIDTH.n_blocks, &others);
        if (i >= 0) {
            f->raw_ns[i] = a;
            f->kv_ns[i] = b;
            f->cpu_s[i] = cpu;
            f->zcopy_ns[i] = c;
            f->converted_ns[i] = d;
        }
    }
    for (int i = -20; i < N_LATENCIES; i++) {
        double a = kv_round(&sides[1], &owners[1], 1, LATENCY.n_blocks, NULL);
        if (i >= 0)
            f->latency_ns[i] = a;
    }
}

static bool find_driver(const char *flag, enum kv_driver *driver_out)
{
    for (enum kv_driver driver = KV_AM_TCP; driver <= KV_CUDA_IPC; driver++) {
        if (strncmp(flag, "--", 2) == 0 && strcmp(flag + 2, driver_name(driver)) == 0) {
            *driver_out = driver;
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    enum kv_driver driver = KV_AM_TCP;
    bool json = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (strncmp(argv[i], "--device=", 9) == 0)
            bench_device = argv[i] + 9;
        else if (!find_driver(argv[i], &driver))
            check(false, "usage: transfer_bench [--am-tcp|--shm-read|--unix|--tls|--cuda-ipc] "
                         "[--device=NAME] [--json]");
    }
    log_init("bench", LOG_WARN, LOG_FORMAT_HUMAN);
    int fds[2], child_fd;
    pid_t children[2];
    if ((children[0] = fork_child(&fds[0], &child_fd)) == 0)
        run_owner(child_fd, driver);
    if ((children[1] = fork_child(&fds[1], &child_fd)) == 0)
        run_raw_owner(child_fd);

    struct side sides[2] = {0};
    struct transport_address owners[2];
    struct raw raws[2] = {0};
    for (int i = 0; i < 2; i++)
        raw_open(&raws[i], i == 1, fds[i]);
    for (int i = 0; i < 2; i++) {
        const struct load *load = i ? &LATENCY : &BANDWIDTH;
        side_open(&sides[i], driver, load->block_bytes, load->n_blocks, false, fds[0], &owners[i]);
    }
    char ready;
    check(recv(fds[0], &ready, 1, MSG_WAITALL) == 1, "receive");

    static struct figures figures;
    measure(&figures, raws, sides, owners, children[0]);
    report(&figures, json, driver_name(driver));
    for (int i = 0; i < 2; i++)
        side_stop(&sides[i]);
    for (int i = 0; i < 2; i++) {
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
    return 0;
}
