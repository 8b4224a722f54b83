#include "engine/constraint_desk.h"

#include "base/log/log.h"
#include "sampling_params/token_rules.h"
#include "text/constraint/constraint_asked.h"
#include "tokenizer/tokenizer.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct constraint_order {
    struct constraint_order *next;
    uint64_t tenant;
    uint64_t turn;             /* the lowest goes first; of equal ones the one that came first */
    struct token_rules *rules; /* a copy of the text */
    atomic_bool is_over;
    struct constraint_done done;
};

struct order_list {
    struct constraint_order *first, **end;
};

struct constraint_desk {
    struct constraint_desk_options options;
    void (*on_done)(void *arg);
    void *arg;
    pthread_t thread;
    pthread_mutex_t mutex; /* of all below, but for the thread's own */
    pthread_cond_t changed;
    struct order_list waiting, done;
    struct constraint_order *running; /* NULL: none */
    uint32_t n_orders;                /* waiting, running and done */
    uint64_t turn;                    /* of the last one that was compiled */
    bool is_stopping;
    /* The thread's, until it has ended: */
    bool has_told; /* why there is no compiler */
    struct tokenizer *tokenizer;
    struct constraint_compiler *compiler; /* NULL: no order has succeeded to make it */
    struct constraint_bytes *choices;     /* [limits.choices_max] */
};

/* ---- lists ---- */

static void list_init(struct order_list *list)
{
    list->first = NULL;
    list->end = &list->first;
}

static void list_push(struct order_list *list, struct constraint_order *order)
{
    order->next = NULL;
    *list->end = order;
    list->end = &order->next;
}

static struct constraint_order *list_pop(struct order_list *list)
{
    struct constraint_order *order = list->first;
    if (!order)
        return NULL;
    list->first = order->next;
    if (!list->first)
        list->end = &list->first;
    return order;
}

/* False: it is not there. */
static bool list_remove(struct order_list *list, const struct constraint_order *order)
{
    struct constraint_order **at = &list->first;
    while (*at && *at != order)
        at = &(*at)->next;
    if (!*at)
        return false;
    *at = order->next;
    if (!*at)
        list->end = at;
    return true;
}

static void order_destroy(struct constraint_order *order)
{
    if (!order)
        return;
    constraint_destroy(order->done.constraint);
    free(order->rules);
    free(order);
}

/* ---- compiling; on the thread ---- */

/* Once, whatever is asked for. */
static void tell(struct constraint_desk *desk, enum status status, const struct error *why)
{
    if (!desk->has_told)
        log_warn("constraints cannot be compiled, and stop strings cannot end beams: %s",
                 why->text[0] ? why->text : status_text(status));
    desk->has_told = true;
}

static enum status load_tokenizer(struct constraint_desk *desk, struct error *why)
{
    return desk->tokenizer ? STATUS_OK
                           : tokenizer_load(desk->options.folder, why, &desk->tokenizer);
}

static enum status make_compiler(struct constraint_desk *desk, struct error *error)
{
    const struct constraint_desk_options *options = &desk->options;
    struct error why = {0};
    if (desk->compiler)
        return STATUS_OK;
    enum status status = load_tokenizer(desk, &why);
    if (status == STATUS_OK)
        status = constraint_compiler_create(desk->tokenizer, options->vocabulary, options->ends,
                                            options->n_ends, &options->limits, &why,
                                            &desk->compiler);
    if (status == STATUS_OK)
        return STATUS_OK;
    tell(desk, status, &why);
    if (status == STATUS_NO_MEMORY)
        return status;
    const char *lack = status == STATUS_UNSUPPORTED && desk->tokenizer
                           ? why.text
                           : "the worker's model folder has no tokenizer that can be used";
    return error_set(error, STATUS_UNSUPPORTED, "%s", lack);
}

static bool is_over(void *arg)
{
    return atomic_load(&((struct constraint_order *)arg)->is_over);
}

/* For stop strings. */
static void give_tokenizer(struct constraint_desk *desk, struct constraint_order *order)
{
    struct constraint_done *done = &order->done;
    struct error why = {0};
    done->status = load_tokenizer(desk, &why);
    if (done->status == STATUS_NO_MEMORY) {
        error_write(&done->error, "sampling.stop: %s", status_text(done->status));
    } else if (done->status != STATUS_OK) {
        tell(desk, done->status, &why);
        done->status = error_set(&done->error, STATUS_UNSUPPORTED,
                                 "sampling.stop: with beam_width, it needs a tokenizer in the "
                                 "worker's model folder, which has none that can be used");
    } else if (!tokenizer_texts_join(desk->tokenizer)) {
        done->status = error_set(&done->error, STATUS_UNSUPPORTED,
                                 "sampling.stop: with beam_width, it needs a tokenizer whose "
                                 "tokens have the same text in every place");
    } else {
        done->tokenizer = desk->tokenizer;
    }
}

static void compile(struct constraint_desk *desk, struct constraint_order *order)
{
    const struct reply_constraint *asked = &order->rules->constraint;
    const char *field = reply_constraint_field(asked);
    struct error why = {0};
    enum status status = make_compiler(desk, &why);
    if (status == STATUS_OK) {
        assert(asked->kind != REPLY_CHOICES || asked->n_texts <= REPLY_CHOICES_MAX);
        const struct constraint_text text = constraint_asked_text(asked, desk->choices);
        status = constraint_compile(desk->compiler, &text, is_over, order, &why,
                                    &order->done.constraint);
        if (status == STATUS_TIMED_OUT) /* no deadline of the request's */
            status = error_set(&why, STATUS_INVALID_ARGUMENT,
                               "takes longer to compile than constraint_compile_ms allows");
    }
    order->done.status = status;
    if (status != STATUS_OK)
        error_write(&order->done.error, "sampling.%s: %s", field,
                    why.text[0] ? why.text : status_text(status));
}

/* The mutex is held. */
static struct constraint_order *pop_turn(struct constraint_desk *desk)
{
    struct constraint_order *first = desk->waiting.first;
    assert(first && "who calls it has waited for one");
    for (struct constraint_order *order = first->next; order; order = order->next)
        if (order->turn < first->turn)
            first = order;
    list_remove(&desk->waiting, first);
    desk->turn = first->turn;
    return first;
}

static struct constraint_order *next_order(struct constraint_desk *desk)
{
    pthread_mutex_lock(&desk->mutex);
    while (!desk->waiting.first && !desk->is_stopping)
        pthread_cond_wait(&desk->changed, &desk->mutex);
    struct constraint_order *order = desk->is_stopping ? NULL : pop_turn(desk);
    desk->running = order;
    pthread_mutex_unlock(&desk->mutex);
    return order;
}

/* Who takes it may destroy its engine at once: so the engine is told before anyone can take it. */
static void put_done(struct constraint_desk *desk, struct constraint_order *order)
{
    pthread_mutex_lock(&desk->mutex);
    desk->running = NULL;
    const bool is_wanted = !atomic_load(&order->is_over);
    if (is_wanted)
        list_push(&desk->done, order);
    else
        desk->n_orders--;
    if (is_wanted && desk->on_done)
        desk->on_done(desk->arg);
    pthread_mutex_unlock(&desk->mutex);
    if (!is_wanted)
        order_destroy(order);
}

static void *run(void *arg)
{
    struct constraint_desk *desk = arg;
    struct constraint_order *order;
    while ((order = next_order(desk))) {
        if (order->rules->constraint.kind == REPLY_FREE)
            give_tokenizer(desk, order);
        else
            compile(desk, order);
        put_done(desk, order);
    }
    return NULL;
}

/* ---- main ---- */

static void destroy(struct constraint_desk *desk)
{
    struct constraint_order *order;
    while ((order = list_pop(&desk->waiting)) || (order = list_pop(&desk->done)))
        order_destroy(order);
    constraint_compiler_destroy(desk->compiler);
    tokenizer_destroy(desk->tokenizer);
    pthread_cond_destroy(&desk->changed);
    pthread_mutex_destroy(&desk->mutex);
    free(desk->choices);
    free(desk);
}

static enum status start(struct constraint_desk *desk)
{
    pthread_attr_t attributes;
    desk->choices = calloc(REPLY_CHOICES_MAX, sizeof *desk->choices);
    if (!desk->choices)
        return STATUS_NO_MEMORY;
    if (pthread_attr_init(&attributes) != 0)
        return STATUS_NO_THREAD;
    int error = pthread_attr_setstacksize(&attributes, 2 * CONSTRAINT_STACK_BYTES);
    if (error == 0)
        error = pthread_create(&desk->thread, &attributes, run, desk);
    pthread_attr_destroy(&attributes);
    if (error != 0)
        return STATUS_NO_THREAD;
    (void)pthread_setname_np(desk->thread, "constraints");
    return STATUS_OK;
}

enum status constraint_desk_create(const struct constraint_desk_options *options,
                                   struct constraint_desk **desk_out)
{
    assert(options->folder && options->waiting_max > 0);
    struct constraint_desk *desk = calloc(1, sizeof *desk);
    if (!desk)
        return STATUS_NO_MEMORY;
    desk->options = *options;
    list_init(&desk->waiting);
    list_init(&desk->done);
    pthread_mutex_init(&desk->mutex, NULL);
    pthread_cond_init(&desk->changed, NULL);
    enum status status = start(desk);
    if (status != STATUS_OK) {
        destroy(desk);
        return status;
    }
    *desk_out = desk;
    return STATUS_OK;
}

void constraint_desk_destroy(struct constraint_desk *desk)
{
    if (!desk)
        return;
    pthread_mutex_lock(&desk->mutex);
    desk->is_stopping = true;
    if (desk->running)
        atomic_store(&desk->running->is_over, true);
    pthread_cond_signal(&desk->changed);
    pthread_mutex_unlock(&desk->mutex);
    pthread_join(desk->thread, NULL);
    destroy(desk);
}

void constraint_desk_on_done(struct constraint_desk *desk, void (*done)(void *arg), void *arg)
{
    pthread_mutex_lock(&desk->mutex);
    assert(desk->n_orders == 0 && "before the first order");
    desk->on_done = done;
    desk->arg = arg;
    pthread_mutex_unlock(&desk->mutex);
}

/* ---- the engine ---- */

uint64_t constraint_desk_limit_ns(const struct constraint_desk *desk)
{
    return desk ? 2 * desk->options.limits.compile_ns : 0;
}

static struct constraint_order *order_create(const struct reply_constraint *text)
{
    const struct token_rules rules = {.constraint = *text};
    struct constraint_order *order = calloc(1, sizeof *order);
    if (!order)
        return NULL;
    order->rules = token_rules_copy(&rules);
    if (!order->rules) {
        free(order);
        return NULL;
    }
    order->done.order = order;
    return order;
}

/* Behind the tenant's other orders; a tenant without any has its turn beside what is being compiled. False: too many wait. The mutex is
 * held. */
static bool give_turn(struct constraint_desk *desk, struct constraint_order *order)
{
    const uint32_t waiting_max = desk->options.waiting_max;
    uint32_t n_of_tenant = 0;
    order->turn = desk->turn;
    if (desk->running && desk->running->tenant == order->tenant)
        order->turn++;
    for (const struct constraint_order *other = desk->waiting.first; other; other = other->next) {
        if (other->tenant != order->tenant)
            continue;
        n_of_tenant++;
        if (other->turn >= order->turn)
            order->turn = other->turn + 1;
    }
    return desk->n_orders < waiting_max &&
           (order->tenant == 0 || n_of_tenant < waiting_max - waiting_max / 2);
}

enum status constraint_desk_order(struct constraint_desk *desk, const struct reply_constraint *text,
                                  uint64_t tenant, struct constraint_order **order_out)
{
    struct constraint_order *order = order_create(text);
    if (!order)
        return STATUS_NO_MEMORY;
    order->tenant = tenant;
    pthread_mutex_lock(&desk->mutex);
    const bool has_room = give_turn(desk, order);
    if (has_room) {
        desk->n_orders++;
        list_push(&desk->waiting, order);
        pthread_cond_signal(&desk->changed);
    }
    pthread_mutex_unlock(&desk->mutex);
    if (!has_room) {
        order_destroy(order);
        return STATUS_QUEUE_FULL;
    }
    *order_out = order;
    return STATUS_OK;
}

bool constraint_desk_has_begun(struct constraint_desk *desk, const struct constraint_order *order)
{
    pthread_mutex_lock(&desk->mutex);
    const struct constraint_order *at = desk->waiting.first;
    while (at && at != order)
        at = at->next;
    pthread_mutex_unlock(&desk->mutex);
    return !at;
}

void constraint_desk_cancel(struct constraint_desk *desk, struct constraint_order *order)
{
    pthread_mutex_lock(&desk->mutex);
    const bool is_here = list_remove(&desk->waiting, order) || list_remove(&desk->done, order);
    if (is_here)
        desk->n_orders--;
    else
        atomic_store(&order->is_over, true); /* the thread has it, and destroys it */
    assert(is_here || desk->running == order);
    pthread_mutex_unlock(&desk->mutex);
    if (is_here)
        order_destroy(order);
}

bool constraint_desk_take(struct constraint_desk *desk, struct constraint_done *done_out)
{
    pthread_mutex_lock(&desk->mutex);
    struct constraint_order *order = list_pop(&desk->done);
    if (order)
        desk->n_orders--;
    pthread_mutex_unlock(&desk->mutex);
    if (!order)
        return false;
    *done_out = order->done;
    order->done.constraint = NULL;
    order_destroy(order);
    return true;
}
