/*
 * tenants - who may call this router, and how much: the tokens of a file, quotas, salts (docs/tenants.md).
 *
 *     token --tenants_enter--> pass --reserve--> ... --settle--> --leave--> destroy
 *              a request, a    |     prompt and     what was      the place of
 *              place at once   |     max_tokens     not used      requests_at_once
 *                              +-- salt: of the tenant and the client's own
 *
 * Quotas are those of this process and of the tenant, whichever of its tokens is used. Charged are:
 *
 *     requests_per_second  every call that is let in
 *     requests_at_once     from there until it is decided how the call ends
 *     tokens_per_minute    prompt + max_tokens when a generation is placed; what was not generated comes
 *                          back at its end, all of it when no worker was asked. A prompt found in a prefix cache
 *                          costs what any other does.
 *
 * A request for more tokens than the quota of a minute waits for a full one and leaves a debt (quota.h), so each
 * is let in at some time, which the refusal names: then it will be, if nothing else of the tenant is
 * before. When all places of requests_at_once are taken nobody can know; it names TENANT_BUSY_NS.
 *
 * The file is read again when it changed. What running calls have goes on; a token that is gone lets none in
 * any more. A tenant keeps what it has left. A file that cannot be read or is malformed changes nothing,
 * and the log says so.
 *
 * Salts: HMAC-SHA256(key, "tenant:NAME" or "group:NAME", a zero byte, the client's salt) as hex digits.
 *
 * Bounds: TENANT_ROWS_MAX rows. Thread: any, but look: one at a time.
 */
#pragma once

#include "base/sha256.h"
#include "base/status.h"
#include "router/tenant_file.h"
#include "router/tenant_metrics.h"

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
    uint64_t wait_ns;                 /* of QUOTA: until it is let in */
    char tenant[TENANT_NAME_MAX + 1]; /* whose call tenants_enter refuses; "": nobody's */
};

/* As tenant_file_read. */
MUST_CHECK enum status tenants_create(const struct tenants_options *options, uint64_t now_ns,
                                      struct error *error, struct tenants **tenants_out);
/* Every pass must be destroyed. NULL is fine. */
void tenants_destroy(struct tenants *tenants);
/* Registers what is counted from now on; before the first call. */
void tenants_add_metrics(struct tenants *tenants, struct tenant_metrics *metrics,
                         struct metrics *registry);
uint32_t tenants_n_rows(struct tenants *tenants);

/* Reads the file again if it is another than at the last look. True: its rows are in force. */
bool tenants_look(struct tenants *tenants, uint64_t now_ns);

/* Who wants in. A token or a certificate is enough; of both, the tenant must be the same. */
struct tenant_claim {
    const char *token; /* what followed "Bearer ", NULL: there was none */
    size_t token_bytes;
    const char
        *tenant; /* of a verified certificate, "": none; it may what any token of that tenant may */
};

/* UNAUTHENTICATED, NOT_ALLOWED, QUOTA, NO_MEMORY. */
MUST_CHECK enum status tenants_enter(struct tenants *tenants, const struct tenant_claim *claim,
                                     enum tenant_method method, uint64_t now_ns,
                                     struct tenant_pass **pass_out,
                                     struct tenant_refusal *refusal_out);

const char *tenant_pass_name(const struct tenant_pass *pass);
/* As the file says now. */
void tenant_pass_terms(const struct tenant_pass *pass, struct tenant_terms *terms_out);
/* Once a pass. QUOTA. */
MUST_CHECK enum status tenant_pass_reserve(struct tenant_pass *pass, uint32_t prompt_tokens,
                                           uint32_t max_tokens, uint64_t now_ns,
                                           struct tenant_refusal *refusal_out);
/* was_placed: a worker was asked. The first counts, and does nothing without a reservation. */
void tenant_pass_settle(struct tenant_pass *pass, bool was_placed, uint32_t generated_tokens,
                        uint64_t now_ns);
/* The first counts. */
void tenant_pass_leave(struct tenant_pass *pass);
/* Leaves; gives all back that is not settled. */
void tenant_pass_destroy(struct tenant_pass *pass, uint64_t now_ns);

/* IO_FAILED as sha256_mac. */
MUST_CHECK enum status tenant_pass_salt(const struct tenant_pass *pass, const char *salt,
                                        char text_out[SHA256_TEXT]);
