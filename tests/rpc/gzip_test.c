/* gzip: a compressed message is what it was, whatever its pieces; no message comes out larger than its bound,
 * and what is no gzip is said so. */
#include "probe.pb-c.h"
#include "rpc/byte_buffer.h"

#include <criterion/criterion.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define BYTES_MAX 100000u

static uint8_t packed[64u << 20], gzipped[1u << 20];

static size_t compress_gzip(const uint8_t *bytes, size_t n)
{
    z_stream stream = {0};
    cr_assert_eq(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (Bytef *)bytes;
    stream.avail_in = (uInt)n;
    stream.next_out = gzipped;
    stream.avail_out = sizeof gzipped;
    cr_assert_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
    deflateEnd(&stream);
    return stream.total_out;
}

static size_t compress_text(size_t n_text)
{
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    ask.text = malloc(n_text + 1);
    memset(ask.text, 'x', n_text);
    ask.text[n_text] = '\0';
    size_t n = kvferry__probe__ask__pack(&ask, packed);
    free(ask.text);
    return compress_gzip(packed, n);
}

/* Unpacks the first n of gzipped, in pieces. */
static enum status unpack(size_t n, size_t piece_bytes, struct rpc_error *error, size_t *n_text_out)
{
    size_t n_pieces = 0;
    grpc_slice *pieces = calloc(n + 1, sizeof *pieces);
    for (size_t at = 0; at < n; at += piece_bytes)
        pieces[n_pieces++] = grpc_slice_from_copied_buffer(
            (const char *)gzipped + at, n - at < piece_bytes ? n - at : piece_bytes);
    grpc_byte_buffer *buffer = grpc_raw_compressed_byte_buffer_create(pieces, n_pieces,
                                                                      GRPC_COMPRESS_GZIP);
    struct rpc_arena arena;
    rpc_arena_init(&arena);
    ProtobufCMessage *message;
    enum status status = rpc_byte_buffer_unpack(buffer, BYTES_MAX, &kvferry__probe__ask__descriptor,
                                                0, &arena, error, &message);
    if (status == STATUS_OK)
        *n_text_out = strlen(((Kvferry__Probe__Ask *)message)->text);
    rpc_arena_finish(&arena);
    grpc_byte_buffer_destroy(buffer);
    for (size_t i = 0; i < n_pieces; i++)
        grpc_slice_unref(pieces[i]);
    free(pieces);
    return status;
}

static void start(void)
{
    grpc_init();
}

static void stop(void)
{
    grpc_shutdown();
}

TestSuite(gzip, .init = start, .fini = stop);

Test(gzip, a_message_is_what_it_was)
{
    static const size_t PIECES[] = {1, 2, 7, 1000, sizeof gzipped};
    static const size_t TEXTS[] = {0, 1, 4000, 4096, 8192, 50000, BYTES_MAX - 4};
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        size_t n = compress_text(TEXTS[i]);
        for (size_t k = 0; k < sizeof PIECES / sizeof *PIECES; k++) {
            size_t n_text = 0;
            struct rpc_error error = {0};
            cr_assert_eq(unpack(n, PIECES[k], &error, &n_text), STATUS_OK, "%s", error.message);
            cr_assert_eq(n_text, TEXTS[i]);
        }
    }
}

Test(gzip, more_than_the_bound_is_refused)
{
    static const size_t TEXTS[] = {BYTES_MAX - 3, BYTES_MAX, 60u << 20};
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        struct rpc_error error = {0};
        cr_assert_eq(unpack(compress_text(TEXTS[i]), 4096, &error, NULL), STATUS_INVALID_ARGUMENT);
        cr_assert_not_null(strstr(error.message, "100000"), "%s", error.message);
    }
}

Test(gzip, what_is_no_gzip_is_refused)
{
    struct rpc_error error = {0};
    size_t n = compress_text(5000);
    for (size_t cut = 0; cut < n; cut++)
        cr_assert_eq(unpack(cut, 16, &error, NULL), STATUS_INVALID_ARGUMENT, "cut at %zu", cut);
    cr_assert_not_null(strstr(error.message, "gzip"), "%s", error.message);
    gzipped[n] = 'x';
    cr_assert_eq(unpack(n + 1, 4096, &error, NULL), STATUS_INVALID_ARGUMENT, "a byte more");
    cr_assert_eq(unpack(n + 1, 1, &error, NULL), STATUS_INVALID_ARGUMENT, "a byte more, alone");
    gzipped[n - 5] ^= 1; /* its checksum */
    cr_assert_eq(unpack(n, 4096, &error, NULL), STATUS_INVALID_ARGUMENT, "another checksum");
    memset(gzipped, 'x', 100);
    cr_assert_eq(unpack(100, 4096, &error, NULL), STATUS_INVALID_ARGUMENT, "rubbish");
}
