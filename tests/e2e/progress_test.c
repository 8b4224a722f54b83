/* Who waits for a prompt sees how far it is: a client that asks, by its stream; a person, by a bar that leaves no trace; and
 * everybody by `ps`. */
#include "support/client.h"
#include "support/cluster.h"
#include "support/command.h"
#include "support/terminal.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#define BAR         "prefill ["
#define ERASE_LINE  "\r\033[K"
#define CTRL_C      "\003"
#define INTERRUPTED 130

enum { N_PROMPT = 400, CHUNK = 16 };

static const char *const SMALL_CHUNKS[] = {"--prefill-chunk-tokens", "16", NULL};

static struct cluster cluster;
static struct terminal terminal; /* large */

static void start(uint32_t n_contexts)
{
    const struct cluster_options options = {
        .n_contexts = n_contexts, .n_generations = 1, .both = SMALL_CHUNKS};
    command_folder_make();
    cluster_start(&cluster, &options);
    setenv("TERM", "xterm", 1);
    unsetenv("KVFERRY_SERVER");
}

static void stop(void)
{
    cluster_stop(&cluster);
    command_folder_remove();
}

/* ---- the stream ---- */

static void generate(struct client *client, struct generation *generation, bool return_progress)
{
    static uint32_t tokens[N_PROMPT];
    prompt_tokens(7, tokens, N_PROMPT);
    *generation = (struct generation){.tokens = tokens,
                                      .n_tokens = N_PROMPT,
                                      .max_tokens = 4,
                                      .return_progress = return_progress};
    client_run(client, generation);
}

static void expect_progress(uint32_t n_contexts)
{
    static struct generation asked, again, silent;
    start(n_contexts);
    struct client *client = client_create(cluster.router.grpc);
    generate(client, &asked, true);
    cr_assert_eq(asked.context_worker[0] != 0, n_contexts > 0);
    cr_assert_eq(asked.progress_tokens, N_PROMPT);
    cr_assert_not(asked.has_late_progress);
    cr_assert(asked.n_progress > 2 && asked.n_progress <= 1 + N_PROMPT / CHUNK, "%u messages",
              asked.n_progress);
    cr_assert_eq(asked.progress[0], 0);
    for (uint32_t i = 1; i < asked.n_progress; i++)
        cr_assert(asked.progress[i] > asked.progress[i - 1] && asked.progress[i] < N_PROMPT);

    generate(client, &again, true);
    cr_assert_eq(again.n_progress, 1, "all but its end is cached");
    cr_assert_geq(again.progress[0], N_PROMPT - CHUNK);
    generate(client, &silent, false);
    cr_assert_eq(silent.n_progress, 0);
    cr_assert_eq(silent.n_generated, 4);
    client_destroy(client);
    stop();
}

Test(progress, a_stream_that_asks_is_told_of_a_context_workers_chunks)
{
    expect_progress(1);
}

Test(progress, a_stream_that_asks_is_told_of_chunks_that_are_computed_where_it_decodes)
{
    expect_progress(0);
}

/* ---- ps ---- */

/* Of the generation worker, by its own port: the context worker may stand still. */
static uint32_t count_prefills(uint32_t *tokens_out, uint32_t *done_out)
{
    RUN("ps", "--json", "--server", address_of(cluster.generations[0].control));
    EXPECT_OK();
    json_t *all = json_loads(last_command.out, 0, NULL);
    int prompts = 0, tokens = 0, done = 0;
    cr_assert_eq(json_unpack(all, "{s:[{s:{s:i, s:i, s:i}}]}", "processes", "prefill", "prompts",
                             &prompts, "tokens", &tokens, "done_tokens", &done),
                 0, "%s", last_command.out);
    json_decref(all);
    *tokens_out = (uint32_t)tokens;
    *done_out = (uint32_t)done;
    return (uint32_t)prompts;
}

static void start_generate(const char *more, const char *value)
{
    static char prompt[1200];
    for (size_t i = 0; i + 1 < sizeof prompt; i++)
        prompt[i] = "In the beginning "[i % 17];
    terminal_start(&terminal,
                   (const char *const[]){"generate", "--server", address_of(cluster.router.grpc),
                                         "--max-tokens", "2", prompt, more, value, NULL});
}

static void expect_exit(int status, int exit_status)
{
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == exit_status, "wait status %d:\n%s",
              status, terminal.text);
}

/* Behind the last bar its line is erased. */
static const char *behind_the_bar(void)
{
    const char *bar = NULL;
    for (const char *at = terminal.text; (at = strstr(at, BAR)); at++)
        bar = at;
    cr_assert_not_null(bar, "there is no bar:\n%s", terminal.text);
    const char *end = strstr(bar, ERASE_LINE);
    cr_assert_not_null(end, "the bar stays:\n%s", terminal.text);
    return end + strlen(ERASE_LINE);
}

Test(progress, ps_tells_how_far_prompts_are_and_a_bar_is_gone_before_the_text)
{
    uint32_t tokens, done;
    start(1);
    cr_assert_eq(count_prefills(&tokens, &done), 0);
    child_signal(&cluster.contexts[0], SIGSTOP);
    start_generate(NULL, NULL);
    terminal_wait(&terminal, " 0 of ");
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    while (count_prefills(&tokens, &done) != 1) /* what an engine tells is of its last step */
        cr_assert_lt(clock_now_ns(), until_ns, "nobody computes a prompt");
    cr_assert_gt(tokens, CHUNK);
    cr_assert_eq(done, 0);
    RUN("ps", "--server", address_of(cluster.generations[0].control));
    char part[32];
    snprintf(part, sizeof part, " 0/%u ", tokens);
    EXPECT_IN(last_command.out, "PREFILL");
    EXPECT_IN(last_command.out, part);

    child_signal(&cluster.contexts[0], SIGCONT);
    expect_exit(terminal_finish(&terminal), 0);
    const char *text = behind_the_bar();
    cr_assert_gt(strlen(text), strlen("\r\n"), "no text comes:\n%s", terminal.text);
    snprintf(part, sizeof part, " of %u tokens", tokens);
    EXPECT_IN(terminal.text, part);
    cr_assert_eq(count_prefills(&tokens, &done), 0);
    cr_assert_eq(tokens + done, 0);
    stop();
}

/* ---- the bar's other ends ---- */

Test(progress, a_bar_is_gone_when_the_wait_is_broken_off)
{
    start(1);
    child_signal(&cluster.contexts[0], SIGSTOP);
    start_generate(NULL, NULL);
    terminal_wait(&terminal, BAR);
    terminal_type(&terminal, CTRL_C);
    expect_exit(terminal_finish(&terminal), INTERRUPTED);
    (void)behind_the_bar();

    start_generate("--deadline-ms", "3s");
    expect_exit(terminal_finish(&terminal), EXIT_FAILURE);
    const char *said = strstr(behind_the_bar(), "not done after 3000 ms");
    cr_assert_not_null(said, "%s", terminal.text);
    child_signal(&cluster.contexts[0], SIGCONT);
    stop();
}

Test(progress, no_bar_is_drawn_where_nobody_would_see_one)
{
    start(0);
    RUN("generate", "--server", address_of(cluster.router.grpc), "--max-tokens", "2",
        "In the beginning");
    EXPECT_OK();
    cr_assert_str_empty(last_command.err);
    start_generate("--echo", NULL);
    expect_exit(terminal_finish(&terminal), 0);
    cr_assert_null(strstr(terminal.text, BAR), "%s", terminal.text);
    setenv("TERM", "dumb", 1);
    start_generate(NULL, NULL);
    expect_exit(terminal_finish(&terminal), 0);
    cr_assert_null(strstr(terminal.text, BAR), "%s", terminal.text);
    stop();
}
