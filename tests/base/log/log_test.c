/* log: whole lines, in both forms, that nothing a client sends can break out of, and for which nobody
 * waits once the writer runs. */

#include "base/log/log.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static FILE *captured;
static int real_stderr;

static void capture_start(void)
{
    captured = tmpfile();
    real_stderr = dup(STDERR_FILENO);
    dup2(fileno(captured), STDERR_FILENO);
    fcntl(STDERR_FILENO, F_SETFL, O_APPEND);
}

static char *capture_end(void)
{
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    long bytes = lseek(fileno(captured), 0, SEEK_END);
    char *text = calloc(1, (size_t)bytes + 1);
    ssize_t got = pread(fileno(captured), text, (size_t)bytes, 0);
    cr_assert_eq(got, bytes);
    fclose(captured);
    return text;
}

/* The line from `from` on: the time before it changes. */
static void expect_line(const char *line, const char *from, const char *expected)
{
    const char *start = strstr(line, from);
    cr_assert(start, "no %s in: %s", from, line);
    cr_expect_str_eq(start, expected);
}

Test(log, people_get_event_values_and_request)
{
    capture_start();
    log_init("ctx-worker", LOG_INFO, LOG_FORMAT_HUMAN);
    log_write(LOG_INFO, "abc", "hand-over done blocks=%d", 12);
    char *line = capture_end();
    expect_line(line, " info ", " info  ctx-worker  hand-over done blocks=12  request=abc\n");
    cr_expect_eq(line[2], ':');
    cr_expect_eq(line[8], '.');
    free(line);
}

Test(log, machines_get_json)
{
    capture_start();
    log_init("router", LOG_INFO, LOG_FORMAT_AUTO); /* a file is no terminal */
    log_write(LOG_WARN, "a\"b", "say \"hi\" \\ %s", "gr\xc3\xbc\xc3\x9f");
    char *line = capture_end();
    cr_expect_eq(strncmp(line, "{\"ts\":\"20", 9), 0);
    expect_line(line, "Z\",",
                "Z\",\"level\":\"warn\",\"role\":\"router\",\"msg\":\"say \\\"hi\\\" "
                "\\\\ gr\xc3\xbc\xc3\x9f\",\"request_id\":\"a\\\"b\"}\n");
    free(line);
}

Test(log, fields_and_the_name_of_the_process_are_keys_of_their_own)
{
    capture_start();
    log_init("router", LOG_INFO, LOG_FORMAT_JSON);
    log_set_name("here:1");
    log_event(LOG_INFO, &(struct log_about){.request_id = "abc"}, "hand-over done",
              LOG_U64("blocks", 12), LOG_TEXT("why", "two words"));
    char *line = capture_end();
    expect_line(line, "\"role\"",
                "\"role\":\"router\",\"name\":\"here:1\",\"msg\":\"hand-over done\","
                "\"request_id\":\"abc\",\"blocks\":12,\"why\":\"two words\"}\n");
    free(line);
}

Test(log, access_lines_can_be_switched_off_alone)
{
    capture_start();
    log_init("router", LOG_INFO, LOG_FORMAT_JSON);
    log_access(NULL, "request done", LOG_U64("n", 1));
    log_set_access(false);
    log_access(NULL, "request done", LOG_U64("n", 2));
    log_event(LOG_INFO, NULL, "another line", LOG_U64("n", 3));
    char *line = capture_end();
    cr_expect(strstr(line, "\"request done\",\"n\":1}"));
    cr_expect_null(strstr(line, "\"n\":2"));
    cr_expect(strstr(line, "\"n\":3"));
    free(line);
}

Test(log, a_line_without_request_says_none)
{
    capture_start();
    log_init("router", LOG_INFO, LOG_FORMAT_JSON);
    log_info("ready");
    char *line = capture_end();
    expect_line(line, "\"msg\"", "\"msg\":\"ready\"}\n");
    free(line);
}

/* New line, escape, bell, DEL, a C1 control, a lone and a truncated UTF-8 byte, a surrogate. */
#define HOSTILE "\n\x1b[2J\x07\x7f\xc2\x9b\xff\xed\xa0\x80\xe2\x82"

Test(log, control_characters_are_escaped_for_people)
{
    capture_start();
    log_init("router", LOG_INFO, LOG_FORMAT_HUMAN);
    log_write(LOG_INFO, "r\n", "%s", HOSTILE);
    char *line = capture_end();
    expect_line(
        line, "\\x0a",
        "\\x0a\\x1b[2J\\x07\\x7f\\xc2\\x9b\\xff\\xed\\xa0\\x80\\xe2\\x82  request=r\\x0a\n");
    free(line);
}

Test(log, control_characters_are_escaped_in_json)
{
    capture_start();
    log_init("router", LOG_INFO, LOG_FORMAT_JSON);
    log_write(LOG_INFO, NULL, "%s", HOSTILE);
    char *line = capture_end();
    expect_line(line, "\\u000a",
                "\\u000a\\u001b[2J\\u0007\\u007f\\u009b\\ufffd\\ufffd\\ufffd"
                "\\ufffd\\ufffd\\ufffd\"}\n");
    free(line);
}

/* Marks, embeddings, overrides, isolates and separators; then letters of a script that needs none of them. */
#define TURNING                                                                                    \
    "\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa\xe2\x80\xab\xe2\x80\xac" \
    "\xe2\x80\xad\xe2\x80\xae\xe2\x81\xa6\xe2\x81\xa7\xe2\x81\xa8\xe2\x81\xa9\xd7\xa9"
#define TURNING_ESCAPED                                                                            \
    "\\u061c\\u200e\\u200f\\u2028\\u2029\\u202a\\u202b\\u202c\\u202d\\u202e\\u2066\\u2067\\u2068"  \
    "\\u2069"                                                                                      \
    "\xd7\xa9"

Test(log, what_changes_the_direction_of_text_is_escaped_in_both_forms)
{
    static const enum log_format FORMS[] = {LOG_FORMAT_HUMAN, LOG_FORMAT_JSON};
    for (size_t i = 0; i < 2; i++) {
        capture_start();
        log_init("router", LOG_INFO, FORMS[i]);
        log_write(LOG_INFO, NULL, "say %s", TURNING);
        char *line = capture_end();
        expect_line(line, "say", i ? "say " TURNING_ESCAPED "\"}\n" : "say " TURNING_ESCAPED "\n");
        free(line);
    }
}

Test(log, a_line_is_bounded)
{
    char *message = malloc(100001);
    memset(message, '\x01', 100000); /* the longest escapes */
    message[100000] = '\0';
    capture_start();
    log_init("router", LOG_INFO, LOG_FORMAT_JSON);
    log_write(LOG_ERROR, message, "%s", message);
    char *line = capture_end();
    cr_expect_lt(strlen(line), 12000);
    cr_expect(strstr(line, "...\",\"request_id\""));
    cr_expect_str_eq(line + strlen(line) - 3, "\"}\n");
    free(line);
    free(message);
}

Test(log, levels_switch_while_running)
{
    enum log_level level;
    capture_start();
    log_init("router", LOG_WARN, LOG_FORMAT_HUMAN);
    log_info("not this");
    log_set_level(LOG_DEBUG);
    log_debug("but this");
    char *line = capture_end();
    cr_expect_null(strstr(line, "not this"));
    cr_expect(strstr(line, " debug router  but this\n"));
    free(line);

    cr_expect_eq(log_level_parse("debug", &level), STATUS_OK);
    cr_expect_eq(level, LOG_DEBUG);
    cr_expect_eq(log_level_parse("loud", &level), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(level, LOG_DEBUG);
}

enum { N_THREADS = 4, N_LINES = 200 };

static void *write_lines(void *arg)
{
    (void)arg;
    for (int i = 0; i < N_LINES; i++)
        log_write(LOG_INFO, "id", "a line of some length that another one might cut %d", i);
    return NULL;
}

Test(log, lines_of_threads_do_not_mix, .timeout = 60)
{
    pthread_t threads[N_THREADS];
    int n_lines = 0;
    capture_start();
    log_init("router", LOG_INFO, LOG_FORMAT_JSON);
    for (int i = 0; i < N_THREADS; i++)
        pthread_create(&threads[i], NULL, write_lines, NULL);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    char *text = capture_end();
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        static const char tail[] = "\"request_id\":\"id\"}";
        *end = '\0';
        cr_assert_eq(strncmp(line, "{\"ts\":\"", 7), 0, "%s", line);
        cr_assert_str_eq(end - strlen(tail), tail);
        cr_assert_null(strstr(line + 1, "{"));
        n_lines++;
    }
    cr_expect_eq(n_lines, N_THREADS * N_LINES);
    free(text);
}

/* ---- with the writer thread ---- */

/* Standard error becomes a pipe; returns the end to read. */
static int pipe_start(void)
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    close(ends[1]);
    return ends[0];
}

static void start_writer(void)
{
    struct error error = {0};
    log_init("router", LOG_INFO, LOG_FORMAT_JSON);
    cr_assert_eq(log_start(&error), STATUS_OK, "%s", error.text);
}

enum { N_TOO_MANY = 20000 }; /* lines: more than the pipe and the queue hold */

Test(log, nobody_waits_for_a_pipe_that_is_not_read, .timeout = 60)
{
    int fd = pipe_start();
    start_writer();
    for (int i = 0; i < N_TOO_MANY; i++)
        log_info("line %d", i);
    cr_expect_not(log_flush(1));
    uint64_t n_dropped = log_lines_dropped();
    cr_expect_gt(n_dropped, 0);
    cr_expect_lt(n_dropped, N_TOO_MANY);

    FILE *pipe_file = fdopen(fd, "r");
    char line[512], report[64];
    uint64_t n_lines = 0;
    snprintf(report, sizeof report, "\"msg\":\"%llu log lines dropped",
             (unsigned long long)n_dropped);
    /* In order; where some are missing, the pipe had room again for a while. */
    long last = -1;
    while (fgets(line, sizeof line, pipe_file) && !strstr(line, "log lines dropped")) {
        const char *number = strstr(line, "\"msg\":\"line ");
        cr_assert(number, "%s", line);
        long i = strtol(number + strlen("\"msg\":\"line "), NULL, 10);
        cr_assert_gt(i, last);
        last = i;
        n_lines++;
    }
    cr_expect(strstr(line, report), "%s", line);
    cr_expect_eq(n_lines + n_dropped, N_TOO_MANY);
    cr_expect(log_flush(60000));
    fclose(pipe_file);
}

/* Runs then in a child with the writer; returns its wait status and what it wrote. */
static int run_child(void (*then)(void), char *text_out, size_t bytes)
{
    int fd = pipe_start();
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        start_writer();
        then();
        exit(3);
    }
    close(STDERR_FILENO);
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    ssize_t n = read(fd, text_out, bytes - 1);
    cr_assert_geq(n, 0);
    text_out[n] = '\0';
    close(fd);
    return status;
}

static void log_one_line(void)
{
    log_error("the last words");
}

Test(log, what_waits_is_written_at_exit, .timeout = 60)
{
    char text[4096];
    int status = run_child(log_one_line, text, sizeof text);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    expect_line(text, "\"msg\"", "\"msg\":\"the last words\"}\n");
}

static void log_too_much(void)
{
    for (int i = 0; i < N_TOO_MANY; i++)
        log_info("line %d", i);
}

Test(log, exit_does_not_wait_for_ever, .timeout = 60)
{
    char text[4096];
    int status = run_child(log_too_much, text, sizeof text);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}
