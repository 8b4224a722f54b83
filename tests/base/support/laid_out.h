/*
 * laid_out - a folder with files of proc and sys as a test wants them.
 *
 * Global state: the folder; Criterion gives each test a process of its own.
 */
#pragma once

extern char laid_out_root[64];

/* Before and after each test. */
void laid_out_make(void);
void laid_out_remove(void);
/* "proc/self/cgroup"; the folders above it are made. */
void laid_out_write(const char *name, const char *text);
