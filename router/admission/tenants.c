#include "router/admission/tenants.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "base/regular_file.h"
#include "base/secret.h"
#include "router/admission/tenant_table.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LOOK_NS (1 * NS_PER_S)
/* A younger file may be written again without a new modification time. */
#define YOUNG_S 2

struct tenants {
    const char *path;
    struct sha256 salt_key;
    const struct tenant_metrics *metrics;
    struct tenant_row *first_rows; /* of the start, for the metrics */
    uint32_t n_first_rows;
    uint64_t looked_ns;
    struct stat seen; /* the file as it was read, or tried to be */
    bool was_young;
    struct error complaint; /* the last that was logged; "": none since a good file */

    pthread_mutex_t mutex; /* what follows, and all tenants */
    struct tenant_table table;
};

struct tenant_pass {
    struct tenants *home;
    struct tenant *tenant;
    bool has_left;
    bool has_reserved;
    uint32_t prompt_tokens, max_tokens;
};

/* ---- the file ---- */

/* Taken before the file is read, so that the next look sees a change in between. */
static void note_file(struct tenants *tenants)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (stat(tenants->path, &tenants->seen) != 0)
        tenants->seen = (struct stat){0};
    tenants->was_young = now.tv_sec - tenants->seen.st_mtim.tv_sec < YOUNG_S;
}

static bool has_changed(const struct tenants *tenants)
{
    struct stat now = {0};
    if (stat(tenants->path, &now) != 0)
        now = (struct stat){0};
    return tenants->was_young || !regular_file_is_same(&now, &tenants->seen);
}

enum status tenants_create(const struct tenants_options *options, uint64_t now_ns,
                           struct error *error, struct tenants **tenants_out)
{
    struct tenants *tenants = calloc(1, sizeof *tenants);
    if (!tenants)
        return STATUS_NO_MEMORY;
    pthread_mutex_init(&tenants->mutex, NULL);
    tenants->path = options->path;
    tenants->salt_key = options->salt_key;
    tenants->looked_ns = now_ns;
    note_file(tenants);
    enum status status = tenant_file_read(tenants->path, &tenants->first_rows,
                                          &tenants->n_first_rows, error);
    if (status == STATUS_OK)
        status = tenant_table_init(&tenants->table, tenants->first_rows, tenants->n_first_rows,
                                   now_ns);
    if (status != STATUS_OK) {
        tenants_destroy(tenants);
        return status;
    }
    *tenants_out = tenants;
    return STATUS_OK;
}

void tenants_destroy(struct tenants *tenants)
{
    if (!tenants)
        return;
    for (uint32_t i = 0; i < tenants->table.n_tenants; i++)
        assert(tenants->table.tenants[i]->n_holders == 1 && "every pass is destroyed");
    tenant_table_finish(&tenants->table);
    free(tenants->first_rows);
    pthread_mutex_destroy(&tenants->mutex);
    secret_wipe(&tenants->salt_key, sizeof tenants->salt_key);
    free(tenants);
}

void tenants_add_metrics(struct tenants *tenants, struct tenant_metrics *metrics,
                         struct metrics *registry)
{
    assert(!tenants->metrics && "once, and before the first call");
    tenant_metrics_create(metrics, registry, tenants->first_rows, tenants->n_first_rows);
    tenants->metrics = metrics;
    for (uint32_t i = 0; i < tenants->table.n_tenants; i++)
        tenants->table.tenants[i]->series = tenant_metrics_of(metrics,
                                                              tenants->table.tenants[i]->name);
}

uint32_t tenants_n_rows(struct tenants *tenants)
{
    pthread_mutex_lock(&tenants->mutex);
    uint32_t n = tenants->table.n_tokens;
    pthread_mutex_unlock(&tenants->mutex);
    return n;
}

/* Logs each error once, however often the file is read. */
static void complain(struct tenants *tenants, enum status status, const struct error *error)
{
    struct error complaint;
    error_write(&complaint, "%s", error->text[0] ? error->text : status_text(status));
    if (strcmp(complaint.text, tenants->complaint.text) == 0)
        return;
    tenants->complaint = complaint;
    log_error("tokens file: the last valid one is still in use: %s", complaint.text);
}

bool tenants_look(struct tenants *tenants, uint64_t now_ns)
{
    if (now_ns - tenants->looked_ns < LOOK_NS)
        return false;
    tenants->looked_ns = now_ns;
    if (!has_changed(tenants))
        return false;
    struct error error = {0};
    struct tenant_row *rows = NULL;
    uint32_t n_rows = 0;
    struct tenant_table fresh;
    note_file(tenants);
    enum status status = tenant_file_read(tenants->path, &rows, &n_rows, &error);
    if (status == STATUS_OK)
        status = tenant_table_init(&fresh, rows, n_rows, now_ns);
    free(rows);
    if (status != STATUS_OK) {
        complain(tenants, status, &error);
        return false;
    }
    pthread_mutex_lock(&tenants->mutex);
    bool is_news = !tenant_table_is_same(&tenants->table, &fresh) || tenants->complaint.text[0];
    if (is_news)
        tenant_table_replace(&tenants->table, &fresh, tenants->metrics, now_ns);
    pthread_mutex_unlock(&tenants->mutex);
    tenants->complaint.text[0] = '\0';
    if (!is_news)
        tenant_table_finish(&fresh);
    else
        log_info("tokens file read again: rows %" PRIu32, n_rows);
    return is_news;
}

/* ---- a call ---- */

static enum status refuse(struct tenant_refusal *refusal, enum status status, const char *sentence)
{
    assert(status != STATUS_OK && sentence[0]);
    *refusal = (struct tenant_refusal){0};
    snprintf(refusal->sentence, sizeof refusal->sentence, "%s", sentence);
    return status;
}

static enum status over_quota(const struct tenant *tenant, const char *what, uint64_t wait_ns,
                              struct tenant_refusal *refusal)
{
    assert(wait_ns > 0 && "a refusal tells when to come again");
    if (tenant->series)
        counter_add(tenant->series->over_quota, 1);
    *refusal = (struct tenant_refusal){.wait_ns = wait_ns};
    snprintf(refusal->sentence, sizeof refusal->sentence, "%s of this tenant are used up", what);
    return STATUS_QUOTA;
}

static enum status refuse_unknown(struct tenants *tenants, const char *sentence,
                                  struct tenant_refusal *refusal)
{
    if (tenants->metrics)
        counter_add(tenants->metrics->unknown_token, 1);
    return refuse(refusal, STATUS_UNAUTHENTICATED, sentence);
}

static enum status refuse_not_allowed(struct tenants *tenants, const char *sentence,
                                      struct tenant_refusal *refusal)
{
    if (tenants->metrics)
        counter_add(tenants->metrics->not_allowed, 1);
    return refuse(refusal, STATUS_NOT_ALLOWED, sentence);
}

/* hash NULL: only a certificate was shown. */
static enum status identify(struct tenants *tenants, const struct sha256 *hash,
                            const char *certificates, struct tenant **tenant_out,
                            uint32_t *methods_out, struct tenant_refusal *refusal)
{
    if (!hash) {
        *tenant_out = tenant_table_find(&tenants->table, certificates);
        if (!*tenant_out)
            return refuse_unknown(tenants, "the certificate's tenant is not known here", refusal);
        *methods_out = tenant_table_methods(&tenants->table, *tenant_out);
        return STATUS_OK;
    }
    const struct tenant_token *token = tenant_table_find_token(&tenants->table, hash);
    if (!token)
        return refuse_unknown(tenants, "the bearer token is not valid", refusal);
    assert(token->tenant->n_holders > 0 && "the table holds it");
    *tenant_out = token->tenant;
    *methods_out = token->methods;
    if (certificates[0] && strcmp(certificates, token->tenant->name) != 0)
        return refuse_not_allowed(
            tenants, "the bearer token and the certificate belong to different tenants", refusal);
    return STATUS_OK;
}

static enum status take_place(struct tenant *tenant, uint64_t now_ns,
                              struct tenant_refusal *refusal)
{
    if (tenant->at_once_max && tenant->at_once >= tenant->at_once_max)
        return over_quota(tenant, "the requests at once", TENANT_BUSY_NS, refusal);
    uint64_t wait_ns = quota_wait_ns(&tenant->requests, 1, now_ns);
    if (wait_ns > 0)
        return over_quota(tenant, "the requests per second", wait_ns, refusal);
    quota_take(&tenant->requests, 1, now_ns);
    tenant->at_once++;
    tenant->n_holders++;
    assert(!tenant->at_once_max || tenant->at_once <= tenant->at_once_max);
    if (tenant->series)
        counter_add(tenant->series->requests, 1);
    return STATUS_OK;
}

/* The mutex is held. */
static enum status enter(struct tenants *tenants, const struct sha256 *hash,
                         const char *certificates, enum tenant_method method, uint64_t now_ns,
                         struct tenant_pass *pass, struct tenant_refusal *refusal)
{
    struct tenant *tenant = NULL;
    uint32_t methods = 0;
    TRY(identify(tenants, hash, certificates, &tenant, &methods, refusal));
    bool is_allowed = method != TENANT_N_METHODS && (methods & TENANT_METHOD_BIT(method)) != 0;
    const char *why_not = hash ? "this method is not allowed with this token"
                               : "this method is not allowed with this certificate";
    enum status status = is_allowed ? take_place(tenant, now_ns, refusal)
                                    : refuse_not_allowed(tenants, why_not, refusal);
    if (status != STATUS_OK) {
        memcpy(refusal->tenant, tenant->name, sizeof refusal->tenant);
        return status;
    }
    assert(tenant->at_once > 0 && tenant->at_once < tenant->n_holders);
    *pass = (struct tenant_pass){.home = tenants, .tenant = tenant};
    return STATUS_OK;
}

enum status tenants_enter(struct tenants *tenants, const struct tenant_claim *claim,
                          enum tenant_method method, uint64_t now_ns, struct tenant_pass **pass_out,
                          struct tenant_refusal *refusal_out)
{
    struct sha256 hash;
    if (!claim->token && !claim->tenant[0]) {
        if (tenants->metrics)
            counter_add(tenants->metrics->no_token, 1);
        return refuse(refusal_out, STATUS_UNAUTHENTICATED,
                      "no bearer token: this server needs the metadata authorization");
    }
    /* Slow work is done before the mutex is taken. */
    enum status status = claim->token ? sha256_of(claim->token, claim->token_bytes, &hash)
                                      : STATUS_OK;
    if (status != STATUS_OK)
        return refuse(refusal_out, status, status_text(status));
    struct tenant_pass *pass = malloc(sizeof *pass);
    if (!pass)
        return refuse(refusal_out, STATUS_NO_MEMORY, status_text(STATUS_NO_MEMORY));
    pthread_mutex_lock(&tenants->mutex);
    status = enter(tenants, claim->token ? &hash : NULL, claim->tenant, method, now_ns, pass,
                   refusal_out);
    pthread_mutex_unlock(&tenants->mutex);
    if (status == STATUS_OK)
        *pass_out = pass;
    else
        free(pass);
    return status;
}

/* Without the mutex: a name is never written again. */
const char *tenant_pass_name(const struct tenant_pass *pass)
{
    return pass->tenant->name;
}

enum status tenant_pass_reserve(struct tenant_pass *pass, uint32_t prompt_tokens,
                                uint32_t max_tokens, uint64_t now_ns,
                                struct tenant_refusal *refusal_out)
{
    assert(!pass->has_reserved);
    struct tenant *tenant = pass->tenant;
    uint64_t n = (uint64_t)prompt_tokens + max_tokens;
    enum status status = STATUS_OK;
    pthread_mutex_lock(&pass->home->mutex);
    uint64_t wait_ns = quota_wait_ns(&tenant->tokens, n, now_ns);
    if (wait_ns > 0) {
        status = over_quota(tenant, "the tokens per minute", wait_ns, refusal_out);
    } else {
        quota_take(&tenant->tokens, n, now_ns);
        pass->has_reserved = true;
        pass->prompt_tokens = prompt_tokens;
        pass->max_tokens = max_tokens;
    }
    pthread_mutex_unlock(&pass->home->mutex);
    return status;
}

/* The mutex is held. */
static void settle(struct tenant_pass *pass, bool was_placed, uint32_t generated_tokens,
                   uint64_t now_ns)
{
    struct tenant *tenant = pass->tenant;
    uint32_t prompt_tokens = was_placed ? pass->prompt_tokens : 0;
    uint32_t n_generated = was_placed ? generated_tokens : 0;
    if (!pass->has_reserved)
        return;
    pass->has_reserved = false;
    uint64_t reserved = (uint64_t)pass->prompt_tokens + pass->max_tokens;
    uint64_t used = (uint64_t)prompt_tokens + n_generated;
    if (used <= reserved)
        quota_give_back(&tenant->tokens, reserved - used, now_ns);
    else
        quota_owe(&tenant->tokens, used - reserved, now_ns);
    if (!tenant->series)
        return;
    counter_add(tenant->series->prompt_tokens, prompt_tokens);
    counter_add(tenant->series->generated_tokens, n_generated);
}

void tenant_pass_settle(struct tenant_pass *pass, bool was_placed, uint32_t generated_tokens,
                        uint64_t now_ns)
{
    pthread_mutex_lock(&pass->home->mutex);
    settle(pass, was_placed, generated_tokens, now_ns);
    pthread_mutex_unlock(&pass->home->mutex);
}

void tenant_pass_leave(struct tenant_pass *pass)
{
    pthread_mutex_lock(&pass->home->mutex);
    if (!pass->has_left) {
        assert(pass->tenant->at_once > 0);
        pass->tenant->at_once--;
        pass->has_left = true;
    }
    pthread_mutex_unlock(&pass->home->mutex);
}

void tenant_pass_destroy(struct tenant_pass *pass, uint64_t now_ns)
{
    struct tenants *tenants = pass->home;
    tenant_pass_leave(pass);
    pthread_mutex_lock(&tenants->mutex);
    settle(pass, false, 0, now_ns);
    assert(pass->has_left && !pass->has_reserved);
    tenant_release(pass->tenant);
    pthread_mutex_unlock(&tenants->mutex);
    free(pass);
}

void tenant_pass_terms(const struct tenant_pass *pass, struct tenant_terms *terms_out)
{
    pthread_mutex_lock(&pass->home->mutex); /* a new file may change them */
    *terms_out = pass->tenant->terms;
    pthread_mutex_unlock(&pass->home->mutex);
}

enum status tenant_pass_salt(const struct tenant_pass *pass, const char *salt,
                             char text_out[SHA256_TEXT])
{
    char text[2 * TENANT_NAME_MAX + 1024];
    struct sha256 mac;
    pthread_mutex_lock(&pass->home->mutex); /* a new file may give it another group */
    const char *group = pass->tenant->group;
    int n_name = snprintf(text, sizeof text, "%s:%s", group[0] ? "group" : "tenant",
                          group[0] ? group : pass->tenant->name);
    pthread_mutex_unlock(&pass->home->mutex);
    /* With both zero bytes: no name and salt make another's text. */
    size_t name_bytes = (size_t)n_name + 1;
    size_t salt_bytes = strlen(salt) + 1;
    assert(name_bytes + salt_bytes <= sizeof text);
    memcpy(text + name_bytes, salt, salt_bytes);
    TRY(sha256_mac(&pass->home->salt_key, sizeof pass->home->salt_key, text,
                   name_bytes + salt_bytes, &mac));
    sha256_format(&mac, text_out);
    return STATUS_OK;
}
