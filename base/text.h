/*
 * text - string functions that C lacks.
 *
 * Thread: any.
 */
#pragma once

#include <stdbool.h>

bool text_ends_with(const char *text, const char *end);
