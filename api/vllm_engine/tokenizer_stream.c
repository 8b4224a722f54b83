#include "api/vllm_engine/tokenizer_stream.h"

#include "api/vllm_engine/zip_file.h"
#include "base/regular_file.h"
#include "base/sha256.h"
#include "proto/smg/grpc/common/common.pb-c.h"
#include "router/text_thread.h"
#include "rpc/borrow.h"

#include <stdlib.h>
#include <string.h>

/* The weight of its job on the text thread: as a long text's, so that short ones go before. */
#define JOB_BYTES TEXT_LONG_BYTES

static const char TEMPLATE[] = "chat_template.jinja";
static const char *const FILES[] = {
    "tokenizer.json",         "tokenizer_config.json",   "config.json",
    "generation_config.json", "special_tokens_map.json", TEMPLATE,
};

struct tokenizer_stream {
    const struct engine_place *place;
    struct rpc_call *rpc; /* held until its end */
    struct zip_file zip;
    size_t sent;
    char digest[SHA256_TEXT];
};

static void destroy(struct tokenizer_stream *stream)
{
    rpc_call_release(stream->rpc);
    zip_file_finish(&stream->zip);
    free(stream);
}

static void on_end(void *arg, enum status why)
{
    (void)why;
    destroy(arg);
}

/* An operator's chat template goes before the folder's, as it does here. */
static enum status read_file(const struct engine_place *place, const char *name, char **text_out,
                             size_t *bytes_out)
{
    const char *chat_template = place->config->chat_template;
    if (name == TEMPLATE && chat_template[0])
        return regular_file_read(chat_template, TOKENIZER_FILE_BYTES_MAX, text_out, bytes_out,
                                 NULL);
    return regular_file_read_in(place->folder, name, TOKENIZER_FILE_BYTES_MAX, text_out, bytes_out,
                                NULL);
}

static enum status add_file(struct tokenizer_stream *stream, const char *name)
{
    char *text;
    size_t bytes;
    enum status status = read_file(stream->place, name, &text, &bytes);
    if (status == STATUS_NOT_FOUND && name != FILES[0]) /* only the tokenizer must be there */
        return STATUS_OK;
    if (status != STATUS_OK)
        return status;
    status = zip_file_add(&stream->zip, name, text, bytes);
    free(text);
    return status;
}

static enum status pack(struct tokenizer_stream *stream)
{
    struct sha256 digest;
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++)
        TRY(add_file(stream, FILES[i]));
    TRY(zip_file_end(&stream->zip));
    TRY(sha256_of(stream->zip.bytes, stream->zip.n_bytes, &digest));
    sha256_format(&digest, stream->digest);
    return STATUS_OK;
}

static void send_next(void *arg)
{
    struct tokenizer_stream *stream = arg;
    Smg__Grpc__Common__GetTokenizerChunk chunk = SMG__GRPC__COMMON__GET_TOKENIZER_CHUNK__INIT;
    size_t left = stream->zip.n_bytes - stream->sent;
    if (left == 0) /* the last piece has left before the end was said */
        return;
    chunk.data.data = stream->zip.bytes + stream->sent;
    chunk.data.len = left < TOKENIZER_PIECE_BYTES ? left : TOKENIZER_PIECE_BYTES;
    stream->sent += chunk.data.len;
    bool is_last = chunk.data.len == left;
    if (is_last)
        chunk.sha256 = stream->digest;
    /* Not OK: the call is over, or is ended here; destroy comes from its on_end, on the queue thread. */
    enum status status = rpc_call_send(stream->rpc, &chunk.base);
    if (status == STATUS_NO_MEMORY)
        rpc_call_fail_status(stream->rpc, status, "%s", status_text(status));
    else if (status == STATUS_OK && is_last)
        rpc_call_finish(stream->rpc);
}

/* On the text thread. */
static void run(void *arg)
{
    struct tokenizer_stream *stream = arg;
    struct rpc_call *rpc = rpc_call_share(stream->rpc);
    enum status status = pack(stream);
    rpc_call_on_quiet(rpc, send_next, stream);
    if (status == STATUS_OK)
        send_next(stream);
    else
        rpc_call_fail_status(rpc, status, "the tokenizer's files cannot be read: %s",
                             status_text(status));
    rpc_call_on_end(rpc, on_end, stream); /* last: it may be over already, and the stream gone */
    rpc_call_release(rpc);
}

void tokenizer_stream_start(const struct engine_place *place, struct rpc_call *rpc)
{
    struct error why = {0};
    enum status status = process_refuses(place->process);
    if (status == STATUS_DRAINING) /* it needs no worker */
        status = STATUS_OK;
    struct tokenizer_stream *stream = status == STATUS_OK ? calloc(1, sizeof *stream) : NULL;
    if (status == STATUS_OK && !stream)
        status = STATUS_NO_MEMORY;
    if (status == STATUS_OK) {
        *stream = (struct tokenizer_stream){.place = place, .rpc = rpc_call_share(rpc)};
        status = text_thread_push(place->intake->text_thread, run, stream, JOB_BYTES, &why);
    }
    if (status == STATUS_OK)
        return;
    rpc_call_fail_status(rpc, status, "%s", why.text[0] ? why.text : status_text(status));
    if (stream)
        destroy(stream);
}
