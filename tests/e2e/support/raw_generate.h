/*
 * raw_generate - Generate by raw_call: its caller reads nothing and never cancels, so that only the
 * server can end the call before its socket is closed.
 *
 * Asserts (Criterion) on anything unexpected.
 */
#pragma once

#include "cluster.h"

/* max_tokens tokens, whatever they are. timeout as in struct raw_call. Returns the socket. */
int raw_generate_start(const struct cluster *cluster, const char *text, uint32_t max_tokens,
                       const char *timeout);

/* The same of a prompt's log-probabilities, with 20 likeliest tokens beside each. */
int raw_score_start(const struct cluster *cluster, const char *text);

/* Requests that the router counts as ended for reason (a status' name); NULL: for any. */
uint32_t requests_ended(const struct cluster *cluster, const char *reason);

/* Waits until n have, for any. */
void requests_wait_ended(const struct cluster *cluster, uint32_t n);
