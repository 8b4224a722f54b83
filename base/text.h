/*
 * text - what C's strings have no function for.
 *
 * Thread: any.
 */
#pragma once

#include <stdbool.h>

bool text_ends_with(const char *text, const char *end);
