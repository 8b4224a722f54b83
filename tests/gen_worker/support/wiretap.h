/*
 * wiretap - a loopback port that forwards one connection at a time to another port, and keeps every byte of both directions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wiretap;

struct wiretap *wiretap_create(uint16_t to_port);
uint16_t wiretap_port(const struct wiretap *tap);
/* These bytes have crossed, in either direction and within one read. */
bool wiretap_has(struct wiretap *tap, const void *bytes, size_t n);
void wiretap_destroy(struct wiretap *tap);
