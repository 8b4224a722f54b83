/*
 * laid_out - a folder with files of proc and sys as a test wants them.
 *
 * Global state: the folder; Criterion gives each test a process of its own.
 */
#pragma once

#include <stdint.h>

extern char laid_out_root[64];

/* Before and after each test. */
void laid_out_make(void);
void laid_out_remove(void);
/* "proc/self/cgroup"; the folders above it are made. */
void laid_out_write(const char *name, const char *text);
/* A file of this CPU: "cpu_capacity". */
void laid_out_write_cpu(uint32_t cpu, const char *name, const char *text);
/* The core of this CPU has the CPUs a and b. */
void laid_out_write_siblings(uint32_t cpu, uint32_t a, uint32_t b);
