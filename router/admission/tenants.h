/*
 * tenants - decides who may call this router, and how much: tokens from a file, quotas, salts (docs/tenants.md).
 *
 *     token --tenants_enter--> pass --reserve--> ... --settle--> --leave--> destroy
 *              a request, a    |     prompt and     what was      the place of
 *              place at once   |     max_tokens     not used      requests_at_once
 *                              +-- salt: of the tenant and the client's own
 *
 * Quotas are per process and per tenant, over all its tokens. They count:
 *
 *     requests_per_second  every admitted call
 *     requests_at_once     from there until it is decided how the call ends
 *     tokens_per_minute    prompt + max_tokens when a generation is placed; tokens that were not generated are
 *                          given back at its end, or all if no worker was asked. A prompt from a prefix cache
 *                          costs what any other does.
 *
 * A request for more tokens than the quota of a minute waits for a full quota and leaves a debt (quota.h). So
 * each request is admitted at some time. A refusal names that time, which is right if no other request of the
 * tenant comes first. If all places of requests_at_once are used, the time is unknown, and the refusal names
 * TENANT_BUSY_NS.
 *
 * A changed file is read again. Running calls continue; a removed token admits no new calls. A tenant keeps its
 * remaining quota. A file that cannot be read or is malformed changes nothing, and the log says so.
 *
 * Salts: HMAC-SHA256(key, "tenant:NAME" or "group:NAME", a zero byte, the client's salt) as hex digits.
 *
 * Bounds: TENANT_ROWS_MAX rows. Thread: any; tenants_look: one at a time.
 */
#pragma once

#include "base/sha256.h"
#include "base/status.h"
#include "router/admission/tenant_file.h"
#include "router/admission/tenant_metrics.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TENANT_BUSY_NS (100 * 1000000ull)

struct tenants;
struct tenant_pass;

struct tenants_options {
    const char *path; /* borrowed until destroy */
    struct sha256 salt_key;
};

/* Why a call is refused. */
struct tenant_refusal {
    char sentence[160];
    uint64_t wait_ns;                 /* of QUOTA: until it would be admitted */
    char tenant[TENANT_NAME_MAX + 1]; /* the tenant of the refused call; "": unknown */
};

/* As tenant_file_read. */
MUST_CHECK enum status tenants_create(const struct tenants_options *options, uint64_t now_ns,
                                      struct error *error, struct tenants **tenants_out);
/* Destroy every pass first. NULL is fine. */
void tenants_destroy(struct tenants *tenants);
/* Registers its metrics; call it before the first call. */
void tenants_add_metrics(struct tenants *tenants, struct tenant_metrics *metrics,
                         struct metrics *registry);
uint32_t tenants_n_rows(struct tenants *tenants);

/* Reads the file again if it has changed since the last look. True: the new rows are in use. */
bool tenants_look(struct tenants *tenants, uint64_t now_ns);

/* The caller's credentials. A token or a certificate is enough; with both, the tenant must be the
 * same. */
struct tenant_claim {
    const char *token; /* the text after "Bearer "; NULL: none */
    size_t token_bytes;
    const char *tenant; /* of a verified certificate, with all rights of its tokens; "": none */
};

/* UNAUTHENTICATED, NOT_ALLOWED, QUOTA, NO_MEMORY. */
MUST_CHECK enum status tenants_enter(struct tenants *tenants, const struct tenant_claim *claim,
                                     enum tenant_method method, uint64_t now_ns,
                                     struct tenant_pass **pass_out,
                                     struct tenant_refusal *refusal_out);

const char *tenant_pass_name(const struct tenant_pass *pass);
/* By the present file. */
void tenant_pass_terms(const struct tenant_pass *pass, struct tenant_terms *terms_out);
/* Once for each pass. QUOTA. */
MUST_CHECK enum status tenant_pass_reserve(struct tenant_pass *pass, uint32_t prompt_tokens,
                                           uint32_t max_tokens, uint64_t now_ns,
                                           struct tenant_refusal *refusal_out);
/* was_placed: a worker was asked. Only the first call counts; it does nothing without a
 * reservation. */
void tenant_pass_settle(struct tenant_pass *pass, bool was_placed, uint32_t generated_tokens,
                        uint64_t now_ns);
/* Only the first call counts. */
void tenant_pass_leave(struct tenant_pass *pass);
/* Calls leave, and gives back all that is not settled. */
void tenant_pass_destroy(struct tenant_pass *pass, uint64_t now_ns);

/* IO_FAILED as sha256_mac. */
MUST_CHECK enum status tenant_pass_salt(const struct tenant_pass *pass, const char *salt,
                                        char text_out[SHA256_TEXT]);
