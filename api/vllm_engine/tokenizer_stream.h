/*
 * tokenizer_stream - GetTokenizer: the files of the model's folder that a gateway needs to render and to tokenize, as a zip.
 *
 *     handler -> text thread: reads and packs -> the first piece -> each time that the client has taken all: the next
 *
 * Bounds: TOKENIZER_FILE_BYTES_MAX a file, TOKENIZER_STREAMS_MAX calls at one time; one piece is unsent.
 *
 * Thread: tokenizer_stream_start on the queue thread.
 */
#pragma once

#include "api/engine/engine_place.h"
#include "rpc/server/call.h"
#include "tokenizer/tokenizer.h"

#define TOKENIZER_STREAMS_MAX 4u
#define TOKENIZER_PIECE_BYTES (64u << 10)

/* The call ends by the last piece, or fails: LOADING, QUEUE_FULL, and what reading says. */
void tokenizer_stream_start(const struct engine_place *place, struct rpc_call *rpc);
