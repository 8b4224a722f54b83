/* Peers that die twenty times, thousands of strangers, and peers that prove who they are and then lie:
 * nothing aborts, nothing is written where nobody asked for it, nothing is left. */
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/random.h"
#include "kvtransfer/drivers/stream/stream_address.h"
#include "kvtransfer/drivers/stream/stream_frame.h"
#include "kvtransfer/drivers/stream/stream_link.h"
#include "kvtransfer/transport/data_port.h"
#include "tests/kvtransfer/support/driver_pair.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef KVFERRY_SANITIZED
enum { STRANGERS = 1000, LIES = 600 };
#else
enum { STRANGERS = 5000, LIES = 3000 };
#endif
enum { KILLS = 20, N_BLOCKS = 16, READER = 1000, OWNER = 2000, LIAR = 3000 };

#define STREAMS(suite, name)                                                                       \
    static void suite##_##name(enum kv_driver driver);                                             \
    DRIVER_TEST(suite, name, unix_socket, KV_UNIX)                                                 \
    DRIVER_TEST(suite, name, tls, KV_TLS)                                                          \
    static void suite##_##name(enum kv_driver driver)

static struct pair_options options_of(enum kv_driver driver)
{
    return (struct pair_options){.driver = driver,
                                 .block_bytes = 1 << 20,
                                 .n_blocks = N_BLOCKS,
                                 .window_max = 32,
                                 .quiet_limit_ns = 500 * NS_PER_MS,
                                 .owner_incarnation = OWNER};
}

static void begin_transfer(struct owner *owner, struct reader *reader, uint64_t number)
{
    struct transfer_id id = transfer_of(number);
    owner_open(owner, &id, reader->address.incarnation);
    owner_publish(owner, &id, 0, N_BLOCKS, 0);
    cr_assert_eq(kv_receiver_open(reader->receiver, &id, &owner->address, NULL), STATUS_OK);
    reader_fetch(reader, &id, 0, N_BLOCKS, 0, 0, NULL);
}

static void end_transfer(struct reader *reader, uint64_t number)
{
    struct transfer_id id = transfer_of(number);
    kv_receiver_close(reader->receiver, &id);
    cr_assert_eq(reader_wait(reader, KV_QUIET), STATUS_OK);
}

static void transfer(struct owner *owner, struct reader *reader, uint64_t number)
{
    struct transfer_id id = transfer_of(number);
    begin_transfer(owner, reader, number);
    reader_wait_arrived(reader, N_BLOCKS);
    reader_check_block(reader, N_BLOCKS - 1, N_BLOCKS - 1);
    end_transfer(reader, number);
    owner_close(owner, &id);
}

/* ---- deaths ---- */

STREAMS(stream_hostile, a_reader_survives_its_owners_twenty_times)
{
    struct owner owners[KILLS];
    struct reader reader;
    for (uint32_t i = 0; i < KILLS; i++) {
        struct pair_options options = options_of(driver);
        options.owner_incarnation += i;
        owner_start(&owners[i], &options);
    }
    struct pair_options options = options_of(driver);
    reader_start(&reader, &options, READER);
    for (uint32_t i = 0; i < KILLS; i++) {
        owner_admit(&owners[i], &reader.address);
        begin_transfer(&owners[i], &reader, i);
        if (i % 3 > 0) /* else before anything came */
            reader_wait(&reader, KV_ARRIVED);
        owner_kill(&owners[i], SIGKILL);
        end_transfer(&reader, i);
    }
    reader_stop(&reader);
}

/* Says its address, waits for a word, reads and is killed. */
static pid_t start_victim(const struct pair_options *options, const struct owner *owner,
                          uint64_t incarnation, int *fd_out)
{
    int fds[2];
    char go;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    pid_t victim = fork();
    if (victim == 0) {
        struct reader reader;
        struct transfer_id id = transfer_of(incarnation);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(fds[0]);
        reader_start(&reader, options, incarnation);
        if (write(fds[1], &reader.address, sizeof reader.address) < 0 || read(fds[1], &go, 1) != 1)
            _exit(1);
        if (kv_receiver_open(reader.receiver, &id, &owner->address, NULL) != STATUS_OK)
            _exit(1);
        reader_fetch(&reader, &id, 0, N_BLOCKS, 0, 0, NULL);
        reader_wait(&reader, KV_ARRIVED);
        (void)!write(fds[1], &go, 1);
        for (;;)
            pause();
    }
    close(fds[1]);
    *fd_out = fds[0];
    return victim;
}

STREAMS(stream_hostile, an_owner_survives_its_readers_twenty_times)
{
    struct pair pair = {.options = options_of(driver)};
    struct transport_address address;
    pid_t victims[KILLS];
    int fds[KILLS];
    char go = 'g';
    owner_start(&pair.owner, &pair.options);
    for (uint32_t i = 0; i < KILLS; i++)
        victims[i] = start_victim(&pair.options, &pair.owner, LIAR + i, &fds[i]);
    for (uint32_t i = 0; i < KILLS; i++) {
        struct transfer_id id = transfer_of(LIAR + i);
        cr_assert_eq(recv(fds[i], &address, sizeof address, MSG_WAITALL), (ssize_t)sizeof address);
        owner_admit(&pair.owner, &address);
        owner_open(&pair.owner, &id, address.incarnation);
        owner_publish(&pair.owner, &id, 0, N_BLOCKS, 0);
        cr_assert_eq(write(fds[i], &go, 1), 1);
        if (i % 3 > 0)
            cr_assert_eq(read(fds[i], &go, 1), 1);
        kill(victims[i], SIGKILL);
        waitpid(victims[i], NULL, 0);
        close(fds[i]);
        owner_close(&pair.owner, &id); /* returns: nothing of it is being read */
    }
    reader_start(&pair.reader, &pair.options, READER);
    owner_admit(&pair.owner, &pair.reader.address);
    transfer(&pair.owner, &pair.reader, 1);
    pair_stop(&pair);
}

/* ---- strangers ---- */

static int dial(enum kv_driver driver, const struct transport_address *address)
{
    enum stream_driver stream = driver == KV_UNIX ? STREAM_UNIX : STREAM_TLS;
    struct sockaddr_storage place;
    socklen_t bytes;
    cr_assert(stream_address_place(stream, address, 0, &place, &bytes));
    for (int i = 0; i < 1000; i++) {
        int fd = socket(place.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (struct sockaddr *)&place, bytes) == 0)
            return fd;
        close(fd);
        (void)poll(NULL, 0, 5);
    }
    cr_assert_fail("the port does not answer: %s", strerror(errno));
    return -1;
}

/* Of one of six kinds. */
static void send_rubbish(int fd, uint32_t kind, struct random *random)
{
    static const uint8_t UCX[13] = {0x78, 0x56, 0x34, 0x12, 0xbe, 0xba, 0xfe,
                                    0xca, 0,    0xff, 0xff, 0xff, 0xff};
    static const uint8_t TLS_HELLO[] = {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3};
    const struct stream_frame pull = {.kind = FRAME_PULL, .pull = {.n = 60000}};
    uint8_t bytes[1024];
    size_t n = sizeof bytes;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)random_u64(random);
    switch (kind) {
    case 0:
        return;
    case 1:
        memcpy(bytes, UCX, n = sizeof UCX);
        break;
    case 2:
        n = 1 + random_below(random, sizeof bytes);
        break;
    case 3:
        memset(bytes, 0, sizeof bytes);
        break;
    case 4:
        memcpy(bytes, TLS_HELLO, sizeof TLS_HELLO);
        n = 517;
        break;
    default:
        stream_frame_encode(&pull, bytes);
    }
    (void)!send(fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

STREAMS(stream_hostile, thousands_of_strangers_leave_nothing_and_hinder_nobody)
{
    enum { SILENT_MAX = 300 };
    struct pair pair;
    struct random random;
    struct pair_options options = options_of(driver);
    int silent[SILENT_MAX];
    uint32_t n_silent = 0, before, now = 0;
    uint64_t kib[2];
    random_init(&random, 12);
    pair_start(&pair, &options);
    transfer(&pair.owner, &pair.reader, 1);
    owner_usage(&pair.owner, &before, &kib[0]);
    for (uint32_t i = 0; i < STRANGERS; i++) {
        int fd = dial(driver, &pair.owner.address);
        send_rubbish(fd, i % 6, &random);
        if (i % 2 == 0 && n_silent < SILENT_MAX)
            silent[n_silent++] = fd;
        else
            close(fd);
        if (i % (STRANGERS / 4) == 0)
            transfer(&pair.owner, &pair.reader, 2 + i);
    }
    kv_receiver_drop_peer(pair.reader.receiver, OWNER);
    transfer(&pair.owner, &pair.reader, 3); /* by a new connection, among the silent ones */
    for (uint64_t until_ns = clock_now_ns() + WAIT_NS; now != before;) {
        owner_usage(&pair.owner, &now, &kib[1]);
        cr_assert_lt(clock_now_ns(), until_ns, "%u descriptors, %u before", now, before);
        (void)poll(NULL, 0, 20);
    }
    struct port_figures port = owner_port(&pair.owner);
    cr_assert_gt(port.refused[PORT_PROOF], 0);
    cr_assert_gt(port.refused[PORT_PROOF_TIME] + port.refused[PORT_UNPROVEN_LIMIT], 0);
    cr_assert_eq(port.bad_messages, 0, "of strangers nothing is taken for a message");
    cr_assert_eq(port.n_unproven, 0);
    cr_assert_geq(owner_bad_messages(&pair.owner), STRANGERS, "each is counted");
    for (uint32_t i = 0; i < n_silent; i++)
        close(silent[i]);
    pair_stop(&pair);
}

/* ---- liars: they have the key, or are this user ---- */

static void mutate(uint8_t *bytes, size_t n, struct random *random)
{
    static const uint32_t VALUES[] = {0,          1,          0xff,   0xffff, 0x7fffffff,
                                      0x80000000, 0xffffffff, 262144, 262145};
    for (uint64_t k = random_below(random, 4); k > 0; k--) {
        size_t at = random_below(random, n - 3);
        if (random_below(random, 2))
            bytes[at] = (uint8_t)random_u64(random);
        else
            memcpy(bytes + at, &VALUES[random_below(random, 9)], 4);
    }
}

static bool wait_for(const struct stream_link *link, short events)
{
    struct pollfd fd = {link->fd, events, 0};
    return poll(&fd, 1, (int)(WAIT_NS / NS_PER_MS)) == 1;
}

/* All of it, or until the other side has had enough. */
static bool say(struct stream_link *link, const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        const struct iovec part = {(void *)bytes, n};
        ssize_t done = stream_link_write(link, &part, 1);
        int flushed = stream_link_flush(link);
        if (done == LINK_LOST || flushed == LINK_LOST)
            return false;
        bytes += done;
        n -= (size_t)done;
        if (done == LINK_LATER)
            return false; /* it does not read on: it owes us nothing */
    }
    return true;
}

static uint8_t liars_key[TLS_KEY_BYTES];

static bool find_liars_key(void *arg, uint64_t reader, uint8_t key_out[TLS_KEY_BYTES])
{
    (void)arg, (void)reader;
    memcpy(key_out, liars_key, TLS_KEY_BYTES);
    return true;
}

static struct stream_link link_to(enum kv_driver driver, const struct transport_address *owner,
                                  struct tls_context *tls)
{
    struct stream_link link = {.fd = dial(driver, owner)};
    int shaken = TLS_LATER;
    if (driver == KV_UNIX)
        return link;
    cr_assert_eq(tls_session_connect(tls, link.fd, LIAR, liars_key, &link.tls), STATUS_OK);
    while ((shaken = tls_session_handshake(link.tls)) == TLS_LATER)
        cr_assert(stream_link_flush(&link) == 1 && wait_for(&link, POLLIN));
    cr_assert_eq(shaken, 1);
    cr_assert_eq(stream_link_flush(&link), 1);
    return link;
}

static size_t make_pull(uint8_t *out, struct random *random)
{
    struct stream_frame frame = {.kind = FRAME_PULL,
                                 .pull = {.n = 1 + (uint32_t)random_below(random, 64),
                                          .reader_incarnation = LIAR,
                                          .owner_incarnation = OWNER,
                                          .id = transfer_of(7)}};
    stream_frame_encode(&frame, out);
    for (uint32_t i = 0; i < frame.pull.n; i++) {
        uint32_t index = (uint32_t)random_below(random, N_BLOCKS + 1);
        const struct wire_item item = {.get = i,
                                       .block_index = index,
                                       .block = index,
                                       .offset = (uint32_t)random_below(random, 1 << 20),
                                       .bytes = 1 + (uint32_t)random_below(random, 4096)};
        wire_item_encode(&item, out + FRAME_HEAD_BYTES + i * PULL_ITEM_BYTES);
    }
    return FRAME_HEAD_BYTES + (size_t)frame.pull.n * PULL_ITEM_BYTES;
}

STREAMS(stream_hostile, a_reader_that_lies_harms_nobody)
{
    static uint8_t message[FRAME_HEAD_BYTES + FRAME_ITEMS_BYTES_MAX], sink[1 << 16];
    struct pair pair;
    struct random random;
    struct tls_context *tls = NULL;
    struct pair_options options = options_of(driver);
    random_init(&random, 34);
    pair_start(&pair, &options);
    struct transport_address liar = pair.reader.address;
    liar.incarnation = LIAR;
    memset(liar.secret, 0x55, sizeof liar.secret);
    owner_admit(&pair.owner, &liar);
    struct transfer_id id = transfer_of(7);
    owner_open(&pair.owner, &id, LIAR);
    owner_publish(&pair.owner, &id, 0, N_BLOCKS, 0);
    if (driver == KV_TLS) {
        cr_assert_eq(tls_key_derive(pair.owner.address.secret, liar.secret, LIAR, liars_key),
                     STATUS_OK);
        cr_assert_eq(tls_context_create(find_liars_key, &tls, NULL), STATUS_OK);
    }
    for (uint32_t i = 0; i < LIES; i++) {
        struct stream_link link = link_to(driver, &pair.owner.address, tls);
        struct stream_frame hello = {.kind = FRAME_HELLO, .hello = {LIAR, i + 1}};
        stream_frame_encode(&hello, message);
        if (random_below(&random, 8) == 0)
            mutate(message, FRAME_HEAD_BYTES, &random);
        bool goes_on = say(&link, message, FRAME_HEAD_BYTES);
        for (uint64_t k = random_below(&random, 8); goes_on && k > 0; k--) {
            size_t n = make_pull(message, &random);
            mutate(message, n, &random);
            goes_on = say(&link, message, random_below(&random, 10) ? n : random_below(&random, n));
        }
        (void)stream_link_read(&link, sink, sizeof sink);
        stream_link_close(&link);
        if (i % (LIES / 4) == 0)
            transfer(&pair.owner, &pair.reader, 100 + i);
    }
    owner_close(&pair.owner, &id);
    transfer(&pair.owner, &pair.reader, 1);
    struct port_figures port = owner_port(&pair.owner);
    cr_assert_gt(port.refused[PORT_PROOF], 0, "of altered hellos");
    cr_assert_gt(port.bad_messages, 0, "of what came after good ones");
    tls_context_destroy(tls);
    pair_stop(&pair);
}

/* ---- an owner that lies ---- */

enum { N_GETS = 8, TARGET_BYTES = 4096, GAP_BYTES = 4096, GUARD = 0xa5 };

/* Targets with gaps between them that nobody asks for. */
static uint8_t memory[N_GETS * (TARGET_BYTES + GAP_BYTES)];

struct asked {
    uint32_t n_ended[N_GETS], n_all;
};

static void on_got(void *arg, const struct piece *piece, enum status status)
{
    struct asked *asked = arg;
    asked->n_ended[piece->tag]++;
    asked->n_all++;
    for (uint32_t i = 0; status == STATUS_OK && i < piece->bytes; i++)
        cr_assert_eq(piece->target[i], (uint8_t)(piece->tag + 1), "OK, and not what was sent");
}

static void check_memory(const struct asked *asked)
{
    for (uint32_t i = 0; i < N_GETS; i++) {
        cr_assert_eq(asked->n_ended[i], 1);
        const uint8_t *gap = memory + i * (TARGET_BYTES + GAP_BYTES) + TARGET_BYTES;
        for (uint32_t at = 0; at < GAP_BYTES; at++)
            cr_assert_eq(gap[at], GUARD, "written where nobody asked for it");
    }
}

/* Its pull is taken apart, and each piece answered, some of them with a lie. */
static void answer(struct stream_link *link, const uint8_t *pull, struct random *random)
{
    static uint8_t message[FRAME_HEAD_BYTES + TARGET_BYTES];
    struct stream_frame asked;
    cr_assert(stream_frame_decode(pull, &asked) && asked.kind == FRAME_PULL);
    for (uint32_t i = 0; i < asked.pull.n; i++) {
        struct stream_frame frame = {.kind = FRAME_PIECE,
                                     .piece = {.answer = ANSWER_BYTES,
                                               .owner_incarnation = OWNER,
                                               .reader_incarnation = READER,
                                               .id = asked.pull.id}};
        cr_assert(wire_item_decode(pull + FRAME_HEAD_BYTES, i, &frame.piece.item));
        size_t bytes = frame.piece.item.bytes;
        uint8_t *body = message + FRAME_HEAD_BYTES;
        memset(body, (int)frame.piece.item.block_index + 1, bytes);
        frame.piece.crc32c = crc32c(0, body, bytes);
        frame.piece.answer = random_below(random, 8) ? ANSWER_BYTES : ANSWER_NOT_HELD;
        stream_frame_encode(&frame, message);
        size_t n = FRAME_HEAD_BYTES + (frame.piece.answer == ANSWER_BYTES ? bytes : 0);
        if (random_below(random, 3) == 0)
            mutate(message, random_below(random, 2) ? FRAME_HEAD_BYTES : n, random);
        for (uint64_t times = random_below(random, 10) ? 1 : 2; times > 0; times--)
            if (!say(link, message, random_below(random, 12) ? n : random_below(random, n)))
                return;
    }
}

/* Drives the transport, until the link can be read. */
static bool can_read(struct transport *transport, const struct stream_link *link,
                     const struct asked *asked)
{
    struct pollfd fd = {link->fd, POLLIN, 0};
    for (uint64_t until_ns = clock_now_ns() + WAIT_NS; poll(&fd, 1, 0) == 0;) {
        transport->ops->progress(transport, clock_now_ns());
        if (asked->n_all == N_GETS)
            return false;
        cr_assert_lt(clock_now_ns(), until_ns, "the reader says nothing");
    }
    return true;
}

static struct stream_link take_reader(struct transport *transport, int listening,
                                      struct tls_context *tls, const struct asked *asked)
{
    struct stream_link link = {.fd = listening};
    cr_assert(can_read(transport, &link, asked));
    link.fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    cr_assert_geq(link.fd, 0);
    if (!tls)
        return link;
    cr_assert_eq(tls_session_accept(tls, link.fd, NULL, &link.tls), STATUS_OK);
    int shaken;
    while ((shaken = tls_session_handshake(link.tls)) == TLS_LATER)
        cr_assert(stream_link_flush(&link) == 1 && can_read(transport, &link, asked));
    cr_assert_eq(shaken, 1);
    return link;
}

/* The hello and the one pull. */
static void take_pull(struct transport *transport, struct stream_link *link,
                      const struct asked *asked, uint8_t *out)
{
    size_t whole = 2 * FRAME_HEAD_BYTES + N_GETS * PULL_ITEM_BYTES;
    for (size_t at = 0; at < whole;) {
        ssize_t n = stream_link_read(link, out + at, whole - at);
        cr_assert_neq(n, LINK_LOST);
        at += (size_t)n;
        if (n == LINK_LATER)
            cr_assert(can_read(transport, link, asked));
    }
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

/* One life of the connection. */
static void lie_once(struct transport *transport, int listening, struct tls_context *tls,
                     const struct transport_address *address, struct random *random)
{
    uint8_t pull[2 * FRAME_HEAD_BYTES + N_GETS * PULL_ITEM_BYTES];
    struct piece pieces[N_GETS];
    struct asked asked = {{0}, 0};
    struct transport_peer *peer;
    struct transfer_id id = transfer_of(1);
    bool is_closed = false;
    memset(memory, GUARD, sizeof memory);
    cr_assert_eq(transport->ops->connect(transport, address, &peer), STATUS_OK);
    for (uint32_t i = 0; i < N_GETS; i++)
        pieces[i] = (struct piece){.block_index = i,
                                   .remote_block = i,
                                   .bytes = 1 + (uint32_t)random_below(random, TARGET_BYTES),
                                   .target = memory + i * (TARGET_BYTES + GAP_BYTES),
                                   .tag = i};
    cr_assert_eq(transport->ops->get(peer, &id, pieces, N_GETS, on_got, &asked), STATUS_OK);
    struct stream_link link = take_reader(transport, listening, tls, &asked);
    take_pull(transport, &link, &asked, pull);
    answer(&link, pull + FRAME_HEAD_BYTES, random);
    if (random_below(random, 2))
        transport->ops->progress(transport, clock_now_ns());
    stream_link_close(&link);
    if (random_below(random, 2))
        transport->ops->progress(transport, clock_now_ns());
    transport->ops->peer_close(peer, on_closed, &is_closed);
    const uint64_t until_ns = clock_now_ns() + WAIT_NS;
    do {
        transport->ops->progress(transport, clock_now_ns());
        cr_assert_lt(clock_now_ns(), until_ns);
    } while (!is_closed);
    check_memory(&asked);
}

STREAMS(stream_hostile, an_owner_that_lies_writes_nowhere_else)
{
    struct transport *transport, *place;
    struct transport_address address, own;
    struct tls_context *tls = NULL;
    struct random random;
    struct driver_options options = {.driver = driver,
                                     .incarnation = READER,
                                     .net_devices = "lo",
                                     .peers_max = 4,
                                     .gets_max = 64,
                                     .reads_max = 64};
    random_init(&random, 56);
    cr_assert_eq(driver_open(&options, &transport, NULL), STATUS_OK);
    options.incarnation = OWNER; /* one whose socket the liar takes over */
    cr_assert_eq(driver_open(&options, &place, NULL), STATUS_OK);
    place->ops->address(place, &address);
    transport->ops->address(transport, &own);
    if (driver == KV_TLS) {
        cr_assert_eq(tls_key_derive(address.secret, own.secret, READER, liars_key), STATUS_OK);
        cr_assert_eq(tls_context_create(find_liars_key, &tls, NULL), STATUS_OK);
    }
    int listening = stream_of(place)->listeners[0].fd;
    for (uint32_t i = 0; i < LIES; i++)
        lie_once(transport, listening, tls, &address, &random);
    place->ops->close(place);
    transport->ops->close(transport);
    tls_context_destroy(tls);
}

/* ---- keys ---- */

static void refuses(struct pair *pair, const struct transport_address *address)
{
    struct transfer_id id = transfer_of(address->secret[0] + 1000u);
    cr_assert_eq(kv_receiver_open(pair->reader.receiver, &id, address, NULL), STATUS_OK);
    reader_fetch(&pair->reader, &id, 0, 1, 0, 0, NULL);
    cr_assert_eq(reader_wait(&pair->reader, KV_FAILED), STATUS_PEER_LOST);
    kv_receiver_close(pair->reader.receiver, &id);
    reader_wait(&pair->reader, KV_QUIET);
    kv_receiver_drop_peer(pair->reader.receiver, address->incarnation);
}

Test(stream_hostile, a_wrong_secret_of_either_side_gets_nothing)
{
    struct pair pair = {.options = options_of(KV_TLS)};
    owner_start(&pair.owner, &pair.options);
    reader_start(&pair.reader, &pair.options, READER);
    struct transport_address impostor = pair.reader.address, wrong = pair.owner.address;
    impostor.secret[31] ^= 1;
    owner_admit(&pair.owner, &impostor); /* another worker said to be this incarnation */
    refuses(&pair, &pair.owner.address);
    wrong.secret[0] ^= 1;
    refuses(&pair, &wrong);
    cr_assert_eq(kv_receiver_bytes_received(pair.reader.receiver), 0);
    pair_stop(&pair);
}
