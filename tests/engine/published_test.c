/* published: a reader gets one whole struct, never parts of two. */
#include "engine/published.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { N_FIGURES = 64, N_READS = 20000 };

struct figures {
    uint64_t same[N_FIGURES];
};

struct bed {
    struct published published;
    atomic_bool is_over;
};

static void *put_on(void *arg)
{
    struct bed *bed = arg;
    for (uint64_t n = 1; !atomic_load(&bed->is_over); n++) {
        struct figures figures;
        for (int i = 0; i < N_FIGURES; i++)
            figures.same[i] = n;
        published_put(&bed->published, &figures, sizeof figures);
    }
    return NULL;
}

Test(published, is_read_whole)
{
    struct bed bed = {.is_over = false};
    struct figures read;
    pthread_t writer;
    uint64_t last = 0;
    cr_assert_eq(published_init(&bed.published, sizeof read), STATUS_OK);
    published_get(&bed.published, &read, sizeof read);
    cr_assert_eq(read.same[0], 0, "before the first put");
    cr_assert_eq(pthread_create(&writer, NULL, put_on, &bed), 0);
    for (int n = 0; n < N_READS; n++) {
        published_get(&bed.published, &read, sizeof read);
        for (int i = 1; i < N_FIGURES; i++)
            cr_assert_eq(read.same[i], read.same[0]);
        cr_assert_geq(read.same[0], last);
        last = read.same[0];
    }
    atomic_store(&bed.is_over, true);
    pthread_join(writer, NULL);
    published_finish(&bed.published);
    published_finish(&bed.published);
}
