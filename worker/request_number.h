/*
 * request_number - a request's name as 64 bits, for what has no room for text: the step's metadata and its
 * errors.
 *
 * The first 16 hexadecimal digits where the name begins with them, as names do that are drawn; a hash
 * (SipHash) of any other. Not 0. Nothing decides by it: two requests may have the same.
 *
 * Thread: any.
 */
#pragma once

#include <stdint.h>

uint64_t request_number(const char *request_id);
