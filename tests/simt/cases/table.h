/*
 * table - how a back end fares on cases: each on a device of the harness of its own, held against the reference.
 *
 * Thread: one at a time; a process has one device.
 */
#pragma once

#include "tests/kernels/cases/compare.h"
#include "tests/simt/simt_device.h"

enum { SCHEDULES = 4, PARTS = 8 };
/* A case in PARTS is of each: its CTAs are held against each other, too; it is repeated. */
enum part { IS_SHARING, IS_REPEATED = 3 };

/* One test: a back end in one order of threads and copies, the cases whose number falls to it. */
struct table {
    const char *name;
    const struct attention_backend *backend;
    uint32_t schedule;
    bool is_half; /* only cases of MATH_BF16 and MATH_FP16 */
    uint32_t n_computed, n_refused, n_failed, n_flash, n_grouped, n_biased, n_whole;
    double worst_of_bound;
    uint32_t worst_case;
};

/* Launches of attention_flash, attention_grouped and attention_whole since a device was opened. */
struct launched {
    uint32_t n_flash, n_grouped, n_short, n_unfused;
    uint32_t n_flash_sm90; /* of n_flash */
    uint32_t n_quads;      /* attention_update_quads */
    uint32_t n_walking;    /* of n_unfused those with fewer CTAs than quarters of tiles */
};
extern struct launched launched;

/* Of the devices that are opened from here on; 0: what simt_device.h says. */
extern uint32_t table_architecture;

bool table_has_all(void);
bool table_is_part(uint32_t number, enum part part);

/* In the order of a schedule; what CTAs of a launch do is held against each other as the case's number says. */
struct device *table_device(uint32_t schedule, uint32_t number);

/* Of a run on a device of its own; finish it. */
struct case_result table_run(const struct case_data *data, const struct case_options *options,
                             uint32_t schedule);
/* The last run: the path of contexts is the kernel that computed them. */
bool table_launched_as_named(const struct attention_case *c);

void table_fail(struct table *table, const struct attention_case *c, const char *what,
                const char *why);
void table_compare(struct table *table, const struct case_data *data, const struct case_result *got,
                   const struct case_result *expected);
