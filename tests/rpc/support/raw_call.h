/*
 * raw_call - a gRPC call written to a socket as HTTP/2 has it: what no gRPC client would send.
 *
 * Nothing is read unless asked for: with a window of 0 the caller is the slowest reader there is.
 *
 * Asserts (Criterion) on anything unexpected.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct raw_call {
    const char *path;    /* "/package.Service/Method" */
    const char *timeout; /* "300m", as grpc-timeout says it; NULL: none */
    uint8_t window;      /* bytes that the server may send */
    const void *message; /* packed */
    uint16_t message_bytes;
    bool is_half;       /* headers alone; the message never comes */
    bool is_cut;        /* half of the message comes, too */
    bool lacks_message; /* the stream ends with its headers */
};

/* Returns the socket, on the loopback: the call lives until it is closed. */
int raw_call_start(uint16_t port, const struct raw_call *call);
/* Resets its stream; the connection stays. */
void raw_call_cancel(int fd);
/* Reads until its trailers are whole, or the connection has ended (false). What was said is lost. */
bool raw_call_await_trailers(int fd);
