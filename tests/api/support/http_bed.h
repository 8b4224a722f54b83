/*
 * http_bed - one HTTP port whose handlers are the tests' own, and clients that are sockets.
 *
 *     /echo   POST: the body back          /hold   GET: kept until the test answers (http_bed_held); ?quiet: without on_end
 *     /hello  GET: "hello"                 /items/ GET: the rest of the path, and the value of ?q
 *     /forget GET: returns unanswered      /flood  GET: sends until it is refused
 *
 * Asserts (Criterion) on anything unexpected, silence of HTTP_BED_WAIT_MS included.
 */
#pragma once

#include "api/http/http_port.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_BED_WAIT_MS  20000 /* reached only by a failure */
#define HTTP_BED_HELD_MAX 64

struct http_bed {
    struct http_port_options options;
    struct metrics *metrics;
    struct http_metrics http_metrics;
    struct http_port *port;
    pthread_mutex_t lock; /* what follows */
    pthread_cond_t changed;
    struct http_exchange *held[HTTP_BED_HELD_MAX]; /* one holder each */
    uint32_t n_held;
    uint32_t n_ends;
    uint32_t n_calls; /* of handlers */
    enum status last_end;
    enum status flood_end;
    uint64_t flood_bytes; /* with the refused ones */
    char last_peer[64];
};
extern struct http_bed http_bed;

/* Default options for a loopback, to be changed before the start. */
void http_bed_prepare(void);
void http_bed_start(void);
void http_bed_stop(void);

/* The index-th exchange of /hold; waits for it. Borrowed until the stop. */
struct http_exchange *http_bed_held(uint32_t index);
void http_bed_wait_ends(uint32_t n);
enum status http_bed_last_end(void);
uint32_t http_bed_n_calls(void);
uint64_t http_bed_struck(enum http_limit limit);
void http_bed_wait_struck(enum http_limit limit, uint64_t n);

int http_bed_connect(uint8_t last); /* from 127.0.0.last */
void http_bed_say(int fd, const char *text);
void http_bed_say_bytes(int fd, const void *bytes, size_t n);
/* All until the end of the connection, or a reset; NUL-terminated; the caller frees. */
char *http_bed_hear_all(int fd);
/* Reads until the text was seen; all that came, NUL-terminated; the caller frees. */
char *http_bed_hear_until(int fd, const char *text);
/* A whole connection: says that, hears all. The caller frees. */
char *http_bed_ask(const char *text);
/* The same, and the answer begins with "HTTP/1.1 CODE " and has that part. */
void http_bed_expect(const char *text, unsigned code, const char *part);
bool http_bed_is_closed(int fd); /* waits for it; false: something came */
