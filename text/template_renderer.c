#include "text/template_renderer.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/log/log.h"
#include "base/utf8.h"
#include "text/chat_marks.h"
#include "text/chat_template.h"
#include "text/jinja.h"
#include "text/keeper_link.h"
#include "text/render_frame.h"
#include "text/template_keeper.h"
#include "text/template_worker.h"
#include "text/text_build.h"
#include "text/text_metrics.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIES 2 /* of a request */

/* Of one worker; belongs to the call that has taken it. */
struct seat {
    bool is_taken;
    int fd; /* -1: there is no worker */
    pid_t pid;
    bool had_one;       /* the next is in place of another */
    bool may_try_again; /* the last ended by itself, and perhaps not for its request */
};

struct template_renderer {
    struct keeper_link *keeper;
    struct chat_template *template;
    struct template_limits limits;
    uint64_t render_ms;
    bool protects_tokens;
    uint32_t marks_used; /* by the template and the tokens: chat_marks.h */
    struct text_metrics metrics;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t freed;
    uint64_t pause_ms; /* 0: the last start went well */
    uint64_t pause_until_ns;
    bool has_warned;
    uint32_t n_seats;
    struct seat seats[];
};

/* ---- one worker ---- */

/* Says how it ended, or ends it, and what its request gets. */
static enum status end_worker(struct template_renderer *renderer, struct seat *seat,
                              struct error *error)
{
    int how = 0;
    assert(seat->fd >= 0);
    close(seat->fd);
    seat->fd = -1;
    seat->had_one = true;
    seat->may_try_again = true;
    if (keeper_link_end(renderer->keeper, seat->pid, &how) != STATUS_OK)
        return error_set(error, STATUS_NOT_READY,
                         "the process that starts template processes is gone");
    if (WIFSIGNALED(how) && WTERMSIG(how) == SIGPROF) {
        seat->may_try_again = false;
        return error_set(error, STATUS_TEMPLATE_LIMIT,
                         "the chat template needs more than %llu ms of CPU time for this request",
                         (unsigned long long)renderer->limits.cpu_ms);
    }
    if (WIFEXITED(how) && WEXITSTATUS(how) == WORKER_EXIT_NO_MEMORY)
        return error_set(error, STATUS_TEMPLATE_LIMIT,
                         "the chat template needs more than %llu bytes of memory for this request",
                         (unsigned long long)renderer->limits.memory_bytes);
    if (WIFSIGNALED(how) && WTERMSIG(how) != SIGKILL)
        return error_set(error, STATUS_TEMPLATE_LIMIT,
                         "the chat template ends its process with signal %d for this request",
                         WTERMSIG(how));
    return error_set(error, STATUS_NOT_READY, "the process that renders chat templates has ended");
}

/* One frame and its answer, whose body the caller frees. PEER_LOST, CORRUPT: the worker is of no use any more; TIMED_OUT: nor
 * when it is late. */
static enum status exchange(const struct template_renderer *renderer, const struct seat *seat,
                            const struct render_frame *frame, const char *body,
                            uint64_t deadline_ns, struct render_frame *answer_out, char **body_out)
{
    uint32_t longest = renderer->limits.prompt_bytes_max > RENDER_SENTENCE_MAX
                           ? renderer->limits.prompt_bytes_max
                           : RENDER_SENTENCE_MAX;
    TRY(render_frame_send(seat->fd, frame, body, deadline_ns));
    TRY(render_frame_receive(seat->fd, longest, deadline_ns, answer_out, body_out));
    if (answer_out->kind == RENDER_ANSWER)
        return STATUS_OK;
    free(*body_out);
    return STATUS_CORRUPT;
}

/* Gives a new worker one thing to read. */
static enum status give(struct template_renderer *renderer, const struct seat *seat,
                        const struct render_frame *frame, const char *body, uint64_t deadline_ns,
                        struct error *error)
{
    struct render_frame answer;
    char *sentence = NULL;
    TRY(exchange(renderer, seat, frame, body, deadline_ns, &answer, &sentence));
    enum status status = STATUS_OK;
    if (answer.a != JINJA_OK)
        status = error_set(error, STATUS_CORRUPT, "%s: %s", renderer->template->origin, sentence);
    free(sentence);
    if (!answer.b && !renderer->has_warned) {
        renderer->has_warned = true; /* by create, before others call */
        log_warn("no seccomp filter for the processes that render chat templates");
    }
    return status;
}

static enum status give_source(struct template_renderer *renderer, const struct seat *seat,
                               const struct chat_template_source *source, uint64_t deadline_ns,
                               struct error *error)
{
    size_t name_bytes = strlen(source->name), n_bytes = name_bytes + source->n_bytes;
    char *body = malloc(n_bytes + 1);
    if (!body)
        return STATUS_NO_MEMORY;
    memcpy(body, source->name, name_bytes);
    memcpy(body + name_bytes, source->text, source->n_bytes);
    const struct render_frame frame = {
        .kind = RENDER_TEMPLATE, .body_bytes = (uint32_t)n_bytes, .a = name_bytes};
    enum status status = give(renderer, seat, &frame, body, deadline_ns, error);
    free(body);
    return status;
}

static enum status give_template(struct template_renderer *renderer, const struct seat *seat,
                                 uint64_t deadline_ns, struct error *error)
{
    const struct chat_template *template = renderer->template;
    const struct render_frame tokens = {.kind = RENDER_TOKENS,
                                        .body_bytes = (uint32_t)strlen(template->tokens),
                                        .a = renderer->limits.fuel,
                                        .b = renderer->limits.prompt_bytes_max};
    TRY(give(renderer, seat, &tokens, template->tokens, deadline_ns, error));
    for (uint32_t i = 0; i < template->n_sources; i++)
        TRY(give_source(renderer, seat, &template->sources[i], deadline_ns, error));
    return STATUS_OK;
}

static enum status start_worker(struct template_renderer *renderer, struct seat *seat,
                                uint64_t deadline_ns, struct error *error)
{
    struct error ending;
    assert(seat->fd < 0);
    TRY(keeper_link_start(renderer->keeper, &renderer->limits, error, &seat->fd, &seat->pid));
    if (seat->had_one)
        counter_add(renderer->metrics.restarted, 1);
    enum status status = give_template(renderer, seat, deadline_ns, error);
    if (status == STATUS_OK)
        return STATUS_OK;
    enum status how = end_worker(renderer, seat, &ending);
    if (status == STATUS_CORRUPT && error && error->text[0])
        return status;
    return error_set(error, how == STATUS_TEMPLATE_LIMIT ? STATUS_CORRUPT : STATUS_NOT_READY,
                     "%s cannot be compiled: %.200s", renderer->template->origin, ending.text);
}

/* ---- seats ---- */

static enum status take_seat(struct template_renderer *renderer, uint64_t deadline_ns,
                             struct seat **seat_out)
{
    enum status status = STATUS_OK;
    struct seat *found = NULL;
    pthread_mutex_lock(&renderer->lock);
    while (!found && status == STATUS_OK) {
        for (uint32_t i = 0; i < renderer->n_seats && !found; i++)
            if (!renderer->seats[i].is_taken)
                found = &renderer->seats[i];
        if (!found && !cond_wait_until(&renderer->freed, &renderer->lock, deadline_ns))
            status = STATUS_TIMED_OUT;
    }
    if (found)
        found->is_taken = true;
    pthread_mutex_unlock(&renderer->lock);
    *seat_out = found;
    return status;
}

static void leave_seat(struct template_renderer *renderer, struct seat *seat)
{
    pthread_mutex_lock(&renderer->lock);
    seat->is_taken = false;
    pthread_cond_signal(&renderer->freed);
    pthread_mutex_unlock(&renderer->lock);
}

/* After a start that failed none is tried for a while. */
static bool is_paused(struct template_renderer *renderer)
{
    pthread_mutex_lock(&renderer->lock);
    bool is_paused = renderer->pause_ms > 0 && clock_now_ns() < renderer->pause_until_ns;
    pthread_mutex_unlock(&renderer->lock);
    return is_paused;
}

static void note_start(struct template_renderer *renderer, bool went_well)
{
    pthread_mutex_lock(&renderer->lock);
    uint64_t twice_ms = 2 * renderer->pause_ms;
    if (went_well)
        renderer->pause_ms = 0;
    else if (twice_ms == 0)
        renderer->pause_ms = RENDERER_PAUSE_MS;
    else
        renderer->pause_ms = twice_ms < RENDERER_PAUSE_MS_MAX ? twice_ms : RENDERER_PAUSE_MS_MAX;
    renderer->pause_until_ns = clock_now_ns() + renderer->pause_ms * NS_PER_MS;
    pthread_mutex_unlock(&renderer->lock);
}

static enum status fill_seat(struct template_renderer *renderer, struct seat *seat,
                             struct error *error)
{
    if (seat->fd >= 0)
        return STATUS_OK;
    if (is_paused(renderer))
        return error_set(error, STATUS_NOT_READY,
                         "the process that renders chat templates cannot be started; the next try "
                         "is in some seconds");
    uint64_t deadline_ns = clock_now_ns() + renderer->render_ms * NS_PER_MS;
    enum status status = start_worker(renderer, seat, deadline_ns, error);
    note_start(renderer, status == STATUS_OK);
    if (status == STATUS_OK)
        return STATUS_OK;
    log_warn("a process that renders chat templates cannot be started: %s",
             error ? error->text : "");
    return STATUS_NOT_READY;
}

/* ---- a request ---- */

static enum status judge(const struct template_renderer *renderer,
                         const struct render_frame *answer, const char *text, struct error *error)
{
    switch ((enum jinja_result)answer->a) {
    case JINJA_OK:
        return STATUS_OK;
    case JINJA_INPUT:
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s", text);
    case JINJA_RAISED:
        return error_set(error, STATUS_INVALID_ARGUMENT, "the chat template refuses it: %s", text);
    case JINJA_SYNTAX:
    case JINJA_FAILED:
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "the chat template cannot render this request: %s", text);
    case JINJA_FUEL:
        return error_set(error, STATUS_TEMPLATE_LIMIT,
                         "the chat template needs more than %llu steps for this request",
                         (unsigned long long)renderer->limits.fuel);
    case JINJA_TOO_LONG:
        return error_set(error, STATUS_PROMPT_TOO_LONG, "the prompt has more than %u bytes",
                         renderer->limits.prompt_bytes_max);
    case JINJA_PANIC:
        break;
    }
    return error_set(error, STATUS_BUG, "the chat template met a mistake of its library");
}

/* The frame's way to the worker and back, and what is to be said when it does not come. */
static enum status ask_once(struct template_renderer *renderer, struct seat *seat,
                            const struct render_frame *frame, const char *json,
                            uint64_t deadline_ns, struct error *error, struct render_prompt *prompt)
{
    uint64_t limit_ns = clock_now_ns() + renderer->render_ms * NS_PER_MS;
    struct render_frame answer;
    char *text = NULL;
    enum status status = exchange(renderer, seat, frame, json, clock_earlier(limit_ns, deadline_ns),
                                  &answer, &text);
    if (status == STATUS_NO_MEMORY || status == STATUS_TIMED_OUT) {
        (void)end_worker(renderer, seat, NULL); /* it may be anywhere in its answer */
        seat->may_try_again = false;
        if (status == STATUS_TIMED_OUT && limit_ns <= deadline_ns)
            return error_set(error, STATUS_TEMPLATE_LIMIT,
                             "the chat template needs more than %llu ms for this request",
                             (unsigned long long)renderer->render_ms);
        return status;
    }
    if (status != STATUS_OK)
        return end_worker(renderer, seat, error);
    status = judge(renderer, &answer, text, error);
    if (status == STATUS_OK && answer.body_bytes > 0 &&
        utf8_first_invalid(text, answer.body_bytes) < answer.body_bytes)
        status = STATUS_BUG;
    if (status != STATUS_OK) {
        free(text);
        return status;
    }
    *prompt = (struct render_prompt){.text = text, .n_bytes = answer.body_bytes};
    return STATUS_OK;
}

/* A worker that ended for no limit of ours gets a follower that tries again; so does one that another request may have
 * left with little memory. */
static enum status ask(struct template_renderer *renderer, const struct render_frame *frame,
                       const char *json, uint64_t deadline_ns, struct error *error,
                       struct render_prompt *prompt)
{
    struct seat *seat;
    TRY(take_seat(renderer, deadline_ns, &seat));
    enum status status = STATUS_OK;
    for (unsigned i = 0; i < TRIES; i++) {
        seat->may_try_again = false;
        status = fill_seat(renderer, seat, error);
        if (status == STATUS_OK)
            status = ask_once(renderer, seat, frame, json, deadline_ns, error, prompt);
        if (!seat->may_try_again || clock_now_ns() >= deadline_ns)
            break;
    }
    leave_seat(renderer, seat);
    return status;
}

enum status template_renderer_render(struct template_renderer *renderer,
                                     const struct render_request *request, struct error *error,
                                     struct render_prompt *prompt_out)
{
    const struct template_limits *limits = &renderer->limits;
    uint64_t begun_ns = clock_now_ns();
    struct marked_request marked = {.json = NULL, .n_bytes = request->n_bytes};
    struct render_prompt prompt;
    enum status status = STATUS_OK;

    assert(request->json && request->now_unix_s >= 0);
    assert(request->tokenizer || !renderer->protects_tokens);
    if (request->n_bytes > limits->request_bytes_max)
        status = error_set(error, STATUS_INVALID_ARGUMENT,
                           "the chat request has %zu bytes, at most %u are read", request->n_bytes,
                           limits->request_bytes_max);
    if (status == STATUS_OK && renderer->protects_tokens)
        status = chat_marks_put(request->tokenizer, request->json, request->n_bytes,
                                renderer->marks_used, limits->request_bytes_max, error, &marked);
    if (status == STATUS_OK) {
        const struct render_frame frame = {.kind = RENDER_RENDER,
                                           .body_bytes = (uint32_t)marked.n_bytes,
                                           .a = (uint64_t)request->now_unix_s,
                                           .b = marked.mark};
        status = ask(renderer, &frame, marked.json ? marked.json : request->json,
                     request->deadline_ns, error, &prompt);
    }
    free(marked.json);
    histogram_observe(renderer->metrics.render, (double)(clock_now_ns() - begun_ns) / 1e9);
    if (status != STATUS_OK) {
        counter_add(renderer->metrics.failed, 1);
        return status;
    }
    prompt.mark = marked.mark;
    *prompt_out = prompt;
    return STATUS_OK;
}

/* ---- life ---- */

static void init(struct template_renderer *renderer,
                 const struct template_renderer_options *options)
{
    renderer->limits = options->limits;
    renderer->render_ms = options->render_ms;
    renderer->protects_tokens = options->protects_tokens;
    renderer->n_seats = options->n_workers;
    for (uint32_t i = 0; i < renderer->n_seats; i++)
        renderer->seats[i].fd = -1;
    pthread_mutex_init(&renderer->lock, NULL);
    cond_init(&renderer->freed);
}

static enum status start(struct template_renderer *renderer,
                         const struct template_renderer_options *options, struct error *error)
{
    TRY(chat_template_read(options->folder, options->template_file, options->template_bytes_max,
                           error, &renderer->template));
    renderer->marks_used = chat_marks_in(renderer->template->tokens,
                                         strlen(renderer->template->tokens));
    for (uint32_t i = 0; i < renderer->template->n_sources; i++) {
        const struct chat_template_source *source = &renderer->template->sources[i];
        renderer->marks_used |= chat_marks_in(source->text, source->n_bytes);
        if (source->n_bytes + RENDER_NAME_MAX > renderer->limits.request_bytes_max)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "%s has %zu bytes, more than the largest chat request (%u)",
                             renderer->template->origin, source->n_bytes,
                             renderer->limits.request_bytes_max);
    }
    TRY(keeper_link_open(options->program, error, &renderer->keeper));
    uint64_t deadline_ns = clock_now_ns() + options->render_ms * NS_PER_MS;
    for (uint32_t i = 0; i < renderer->n_seats; i++)
        TRY(start_worker(renderer, &renderer->seats[i], deadline_ns, error));
    return STATUS_OK;
}

enum status template_renderer_create(const struct template_renderer_options *options,
                                     struct error *error, struct template_renderer **renderer_out)
{
    assert(options->n_workers > 0 && options->n_workers <= KEEPER_WORKERS_MAX);
    assert(options->render_ms > 0 && options->metrics);
    if (!text_is_built())
        return error_set(error, STATUS_NO_CHAT_TEMPLATE, "chat templates are %s", text_libraries());
    size_t n_bytes = sizeof(struct template_renderer) + options->n_workers * sizeof(struct seat);
    struct template_renderer *renderer = calloc(1, n_bytes);
    if (!renderer)
        return STATUS_NO_MEMORY;
    init(renderer, options);
    enum status status = start(renderer, options, error);
    if (status != STATUS_OK) {
        template_renderer_destroy(renderer);
        return status;
    }
    text_metrics_init(&renderer->metrics, options->metrics);
    *renderer_out = renderer;
    return STATUS_OK;
}

void template_renderer_destroy(struct template_renderer *renderer)
{
    if (!renderer)
        return;
    for (uint32_t i = 0; i < renderer->n_seats; i++)
        if (renderer->seats[i].fd >= 0)
            close(renderer->seats[i].fd);
    keeper_link_close(renderer->keeper);
    chat_template_destroy(renderer->template);
    pthread_cond_destroy(&renderer->freed);
    pthread_mutex_destroy(&renderer->lock);
    free(renderer);
}
