/*
 * criterion_calls - what Criterion's macros call, apart from its runner: a program with a main of its
 * own may use code with assertions.
 *
 * Global state: whether an expectation of this process failed; each test is a process.
 */
#pragma once

#include <stdbool.h>

extern bool criterion_calls_failed;
