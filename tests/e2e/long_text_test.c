/* Texts that wait to be tokenized are bounded by their bytes: what is over is refused at once, one
 * text alone is always taken, and one whose deadline passes in the queue is counted as that. */

#include "base/clock.h"
#include "support/client.h"
#include "support/cluster.h"
#include "support/command.h"
#include "support/raw_generate.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_TEXTS = 12, N_AHEAD = 7 };

/* Of the largest message that a router takes, a little less; and such that all of N_TEXTS come at once over one connection. */
#define LONGEST_BYTES ((8u << 20) - 1024)
#define LONG_BYTES    (1u << 20)

/* Words of a book, over and over. */
static char *long_text(size_t bytes)
{
    static const char WORDS[] = "And God saw the light, that it was good: ";
    char *text = malloc(bytes + 1);
    cr_assert_not_null(text);
    for (size_t i = 0; i < bytes; i++)
        text[i] = WORDS[i % (sizeof WORDS - 1)];
    text[bytes] = '\0';
    return text;
}

static void start_text(struct client *client, struct generation *generation, const char *text)
{
    *generation = (struct generation){.text = text, .max_tokens = 1, .deadline_ms = 120000};
    client_start(client, generation);
}

static enum status end_of(struct client *client, struct generation *generation)
{
    cr_assert(client_wait(client, generation, 120000));
    return generation->error.status;
}

Test(long_text, what_waits_is_bounded_by_its_bytes)
{
    static const char *const ROUTER[] = {"--text-queue-bytes-max", "1M", NULL};
    static struct generation texts[N_TEXTS], last;
    struct cluster cluster;
    uint32_t n_refused = 0;
    char *longest = long_text(LONGEST_BYTES), *shorter = long_text(64 << 10);
    char *text = long_text(LONG_BYTES);
    cluster_start(&cluster, &(struct cluster_options){.n_generations = 1, .router = ROUTER});
    struct client *client = client_create(cluster.router.grpc);
    for (uint32_t i = 0; i < N_TEXTS; i++)
        start_text(client, &texts[i], text);
    for (uint32_t i = 0; i < N_TEXTS; i++) {
        enum status status = end_of(client, &texts[i]);
        cr_assert(status == STATUS_PROMPT_TOO_LONG || status == STATUS_QUEUE_FULL, "%s: %s",
                  status_name(status), texts[i].error.message);
        if (status == STATUS_QUEUE_FULL)
            cr_assert(strstr(texts[i].error.message, "are over 1048576 (text_queue_bytes_max)"),
                      "%s", texts[i].error.message);
        n_refused += status == STATUS_QUEUE_FULL;
    }
    cr_assert_gt(n_refused, 0, "%u texts of %u bytes were all taken", N_TEXTS, LONG_BYTES);
    cr_assert_eq(requests_ended(&cluster, "QUEUE_FULL"), n_refused);

    start_text(client, &last, longest);
    cr_assert_eq(end_of(client, &last), STATUS_PROMPT_TOO_LONG, "one alone is taken: %s",
                 last.error.message);
    start_text(client, &last, shorter);
    cr_assert_eq(end_of(client, &last), STATUS_PROMPT_TOO_LONG, "%s", last.error.message);
    client_destroy(client);
    cluster_stop(&cluster);
    free(longest);
    free(shorter);
    free(text);
}

/* Texts with a short deadline behind long ones. None is cancelled: a client's own deadline, which
 * cancels, would be a race with the server's. */
static void run_late_texts(const struct cluster *cluster, struct client *client,
                           const char *longest)
{
    static struct generation ahead[N_AHEAD];
    int late[N_TEXTS];
    uint32_t n_before = requests_ended(cluster, NULL);
    for (uint32_t i = 0; i < N_AHEAD; i++)
        start_text(client, &ahead[i], longest);
    cr_assert_eq(end_of(client, &ahead[0]), STATUS_PROMPT_TOO_LONG);
    for (uint32_t i = 0; i < N_TEXTS; i++)
        late[i] = raw_generate_start(cluster, "In the beginning", 1, "250m");
    requests_wait_ended(cluster, n_before + N_AHEAD + N_TEXTS);
    for (uint32_t i = 0; i < N_TEXTS; i++)
        close(late[i]);
    for (uint32_t i = 1; i < N_AHEAD; i++)
        cr_assert_eq(end_of(client, &ahead[i]), STATUS_PROMPT_TOO_LONG);
}

Test(long_text, a_deadline_that_passes_in_the_queue_is_called_that)
{
    static const char *const ROUTER[] = {"--text-queue-bytes-max", "64M", "--text-inline-bytes",
                                         "0", NULL};
    struct cluster cluster;
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    char *longest = long_text(LONGEST_BYTES);
    cluster_start(&cluster, &(struct cluster_options){.n_generations = 1, .router = ROUTER});
    struct client *client = client_create(cluster.router.grpc);
    while (requests_ended(&cluster, "DEADLINE") == 0) {
        cr_assert_lt(clock_now_ns(), until_ns, "no deadline passes in the queue");
        run_late_texts(&cluster, client, longest);
        cr_assert_eq(requests_ended(&cluster, "CANCELLED"), 0);
    }
    client_destroy(client);
    cluster_stop(&cluster);
    free(longest);
}
