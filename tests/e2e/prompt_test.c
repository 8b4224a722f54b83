/* What `generate` sends comes from where one expects it, whole or not at all; and what then happened to
 * it is said: the first example of the README crosses between the workers, and a prompt that does not
 * has a reason. */

#include "support/child.h"
#include "support/cluster.h"
#include "support/command.h"
#include "support/server.h"
#include "support/terminal.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define NO_SERVER "127.0.0.1:1"

TestSuite(prompt, .init = command_folder_make, .fini = command_folder_remove);

/* ---- where it was computed ---- */

/* What the README puts behind its n-th "kvferry generate", up to a comment. */
static void find_example(unsigned n, char line_out[256])
{
    char line[1024];
    FILE *file = fopen(KVFERRY_SOURCE_DIR "/README.md", "r");
    cr_assert_not_null(file);
    const char *found = NULL;
    while (n > 0 && fgets(line, sizeof line, file))
        if ((found = strstr(line, "kvferry generate ")))
            n--;
    fclose(file);
    cr_assert(n == 0 && found, "the README has no such example");
    found += strlen("kvferry generate ");
    snprintf(line_out, 256, "%.*s", (int)strcspn(found, "#\n"), found);
}

/* As a shell in the root of the sources runs it: words, "quoted ones", and < FILE. Changes example. */
static void run_example(char *example)
{
    const char *words[16] = {"generate"};
    static char input[512];
    const char *end = example + strlen(example);
    uint32_t n = 1;
    input[0] = '\0';
    for (char *at = example; at < end; at++) {
        at += strspn(at, " ");
        char *word = *at == '"' ? ++at : at;
        at += strcspn(at, at > example && at[-1] == '"' ? "\"" : " ");
        *at = '\0';
        if (*word)
            words[n++] = word;
        cr_assert_lt(n, 15);
    }
    if (n > 2 && strcmp(words[n - 2], "<") == 0) {
        snprintf(input, sizeof input, "%s/%s", KVFERRY_SOURCE_DIR, words[n - 1]);
        n -= 2;
    }
    words[n] = NULL;
    command_run(input[0] ? input : NULL, words);
    EXPECT_OK();
}

Test(prompt, the_first_example_of_the_readme_crosses_and_a_short_one_says_why_it_did_not)
{
    struct child server;
    char example[256];
    server_start(&server, NULL);
    setenv("KVFERRY_SERVER", address_of(server.grpc), 1);
    find_example(1, example);
    EXPECT_IN(example, "--verbose");
    run_example(example);
    unsigned long long bytes = 0;
    const char *figure = strstr(last_command.err, "\n  KV ");
    cr_assert(figure && sscanf(figure, " KV %llu bytes over am-tcp", &bytes) == 1 && bytes > 0,
              "nothing crossed: %s", last_command.err);

    find_example(2, example);
    run_example(example);
    EXPECT_IN(last_command.err, "context worker     none (SHORT_PROMPT): the prompt has ");
    EXPECT_IN(last_command.err, "up to 32 are computed locally (local_prefill_max_tokens)");
    child_stop(&server);
}

/* 200 tokens and some, of text that begins with that. */
static void ask_long(const struct cluster *cluster, const char *begin)
{
    char prompt[2048];
    int n = snprintf(prompt, sizeof prompt, "%s", begin);
    for (int verse = 0; verse < 20; verse++)
        n += snprintf(prompt + n, sizeof prompt - (size_t)n, "And the children of Israel did so. ");
    RUN("generate", "--server", address_of(cluster->router.grpc), "--max-tokens", "2", "--verbose",
        prompt);
    EXPECT_OK();
}

static void expect_place(const struct cluster *cluster, const char *place, const char *sentence)
{
    char said[64], label[64], logged[64];
    snprintf(said, sizeof said, "none (%s): ", place);
    EXPECT_IN(last_command.err, said);
    EXPECT_IN(last_command.err, sentence);
    snprintf(logged, sizeof logged, "\"place\":\"%s\"}", place);
    cr_assert(child_log_wait(&cluster->router, logged), "%s is not logged", place);
    snprintf(label, sizeof label, "place=\"%s\"", place);
    for (char *at = label; *at; at++)
        *at = *at >= 'A' && *at <= 'Z' ? (char)(*at + 'a' - 'A') : *at;
    cr_assert_gt(child_metric(&cluster->generations[0], "kvferry_prompts_total", label), 0,
                 "%s is not counted", label);
}

/* No context worker is ready any more, as the router sees it. */
static void wait_until_unseen(const struct child *router)
{
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    while (child_metric(router, "kvferry_peers", "role=\"ctx-worker\",state=\"ready\"") > 0) {
        cr_assert_lt(clock_now_ns(), until_ns, "the router still sees it");
        (void)poll(NULL, 0, 5);
    }
}

Test(prompt, each_reason_to_compute_locally_is_said_logged_and_counted)
{
    static const char *const GENERATION[] = {"--context-limit-ms", "500", NULL};
    static const char *const FIRST[] = {"--kv-block-tokens", "32", NULL};
    const struct cluster_options options = {
        .n_contexts = 1, .n_generations = 1, .generation = GENERATION};
    struct cluster cluster;
    cluster_start(&cluster, &options);
    ask_long(&cluster, "One. ");
    EXPECT_IN(last_command.err, " bytes over am-tcp, ");
    cr_assert_gt(
        child_metric(&cluster.generations[0], "kvferry_prompts_total", "place=\"context_worker\""),
        0);
    ask_long(&cluster, "One. ");
    expect_place(&cluster, "PREFIX_CACHED", " tokens were cached");
    child_signal(&cluster.contexts[0], SIGSTOP);
    ask_long(&cluster, "Two. ");
    child_signal(&cluster.contexts[0], SIGCONT);
    expect_place(&cluster, "HAND_OVER_FAILED", "TIMED_OUT: the context worker said nothing");
    child_kill(&cluster.contexts[0]);
    wait_until_unseen(&cluster.router);
    ask_long(&cluster, "Three. ");
    expect_place(&cluster, "NO_CONTEXT_WORKER", "no context worker was ready");
    cluster_stop(&cluster);

    const struct cluster_options misfits = {
        .n_contexts = 1, .n_generations = 1, .n_misfits = 1, .first_context = FIRST};
    cluster_start(&cluster, &misfits);
    ask_long(&cluster, "One. ");
    expect_place(&cluster, "PAIR_UNFIT", "no ready context worker is compatible with this");
    cluster_stop(&cluster);
}

/* ---- where it comes from ---- */

/* The prompt that was sent, as --echo shows it; then generated text. */
static void expect_echoed(const char *prompt)
{
    EXPECT_OK();
    cr_assert_eq(strncmp(last_command.out, prompt, strlen(prompt)), 0, "\"%s\" is not: %s", prompt,
                 last_command.out);
}

Test(prompt, argument_pipe_dash_and_file_are_the_same_but_for_a_last_line_feed)
{
    struct child server;
    static char text[COMMAND_TEXT_MAX];
    char one[160], two[160];
    server_start(&server, NULL);
    setenv("KVFERRY_SERVER", address_of(server.grpc), 1);
    setenv("KVFERRY_TEMPERATURE", "0", 1);
    setenv("KVFERRY_MAX_TOKENS", "5", 1);
    setenv("KVFERRY_ECHO", "yes", 1);
    snprintf(one, sizeof one, "%s", in_folder("one"));
    snprintf(two, sizeof two, "%s", in_folder("two"));
    write_file(one, "In the beginning\n", 17);
    write_file(two, "In the beginning\n\n", 18);

    RUN("generate", "In the beginning");
    expect_echoed("In the beginning");
    snprintf(text, sizeof text, "%s", last_command.out);
    RUN("generate", "--prompt-file", one);
    cr_assert_str_eq(last_command.out, text);
    static const char *const WORDS[][4] = {
        {"generate"}, {"generate", "-"}, {"generate", "--prompt-file", "-"}};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        command_run(one, WORDS[i]);
        cr_assert_str_eq(last_command.out, text, "%zu", i);
        command_run(two, WORDS[i]);
        expect_echoed("In the beginning\n");
        cr_assert_str_neq(last_command.out, text);
    }
    command_run(one, (const char *const[]){"generate", "And God", NULL});
    expect_echoed("And God"); /* what is given goes before what could be read */
    child_stop(&server);
}

static void expect_exit(int exit_status, const char *part)
{
    cr_assert_eq(last_command.exit_status, exit_status, "exit status %d: %s",
                 last_command.exit_status, last_command.err);
    EXPECT_IN(last_command.err, part);
    const char *end = strchr(last_command.err, '\n');
    cr_assert(end && end[1] == '\0', "not one line: %s", last_command.err);
}

Test(prompt, what_is_no_prompt_is_refused_by_name)
{
    char path[160];
    snprintf(path, sizeof path, "%s", in_folder("text"));
    setenv("KVFERRY_SERVER", NO_SERVER, 1);
    RUN("generate", "one", "two");
    expect_exit(2, "put an argument with spaces in quotes");
    RUN("generate", "--prompt-file", path, "two");
    expect_exit(2, "as an argument and with --prompt-file");
    RUN("generate");
    expect_exit(1, "the prompt (standard input) is empty");
    RUN("generate", "");
    expect_exit(1, "the prompt is empty");
    RUN("generate", "--prompt-file", command_folder);
    expect_exit(1, "Is a directory");
    RUN("generate", "--prompt-file", path);
    expect_exit(1, "No such file or directory");
    write_file(path, "And G\xc3\xb6tt \xe2\x82", 12);
    const char *const words[] = {"generate", NULL};
    command_run(path, words);
    expect_exit(1, "the prompt (standard input) is not UTF-8: byte 11 (of 12) is 0xe2");
    RUN("generate", "--prompt-file", path);
    expect_exit(1, "text) is not UTF-8: byte 11 (of 12) is 0xe2");
    RUN("generate", "a\xff");
    expect_exit(1, "the prompt is not UTF-8: byte 2 (of 2) is 0xff");
    command_run("/dev/zero", words); /* which never ends */
    expect_exit(1, "the prompt (standard input) is over 8000000 bytes");
}

Test(prompt, a_terminal_is_not_waited_for_unless_it_is_asked_for)
{
    struct child server;
    static struct terminal terminal;
    setenv("KVFERRY_SERVER", NO_SERVER, 1);
    terminal_start(&terminal, (const char *const[]){"generate", NULL});
    int status = terminal_finish(&terminal);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 2, "wait status %d", status);
    EXPECT_IN(terminal.text, "kvferry generate: the prompt is missing: give it as an argument");

    server_start(&server, NULL);
    setenv("KVFERRY_SERVER", address_of(server.grpc), 1);
    terminal_start(&terminal,
                   (const char *const[]){"generate", "-", "--max-tokens", "3", "--verbose", NULL});
    terminal_type(&terminal, "In the beginning\n\004");
    status = terminal_finish(&terminal);
    cr_assert_eq(status, 0, "%s", terminal.text);
    EXPECT_IN(terminal.text, ", 3 generated");
    child_stop(&server);
}

Test(prompt, a_server_that_cannot_be_reached_is_explained)
{
    struct child server;
    server_start(&server, NULL);
    RUN("generate", "--server", "localhost", "And God");
    expect_exit(2, "--server: address \"localhost\": no port");
    RUN("ps", "--server", "127.0.0.1:99999");
    expect_exit(2, "--server: address \"127.0.0.1:99999\": \"99999\" is not a port");
    RUN("generate", "--server", "nowhere.invalid:50051", "And God");
    expect_exit(1, "--server: nowhere.invalid: ");
    RUN("generate", "--server", address_of(server.control), "And God");
    expect_exit(1, "does not accept prompts: is it a control port?");
    RUN("generate", "--server", address_of(server.metrics), "And God");
    expect_exit(1, "no kvferry server answers at 127.0.0.1:");
    RUN("ps", "--server", address_of(server.metrics));
    expect_exit(1, "no kvferry server answers at 127.0.0.1:");
    RUN("generate", "--server", address_of(server.grpc), "--deadline-ms", "1ms", "And God");
    expect_exit(1, "TIMED_OUT: not done after 1 ms (--deadline-ms)");
    RUN("generate", "--model", in_folder("nowhere"), "And God");
    expect_exit(1, "nowhere: No such file or directory");
    child_stop(&server);
}
