/*
 * desk_rig - a desk for constraints whose tokens are characters: the first 96 of a golden tokenizer, '!' .. '~' and two more.
 * Id 2 ends a reply.
 */
#pragma once

#include "engine/constraint_desk.h"
#include "text/text_build.h"

#include <criterion/criterion.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DESK_FOLDER     KVFERRY_SOURCE_DIR "/tests/golden/tokenizer/gpt2"
#define DESK_VOCABULARY 96u
#define DESK_END        2u
#define DESK_ID(c)      ((uint32_t)(c) - '!') /* of a printable character */
#define DESK_CHAR(id)   ((char)((id) + '!'))

static const uint32_t DESK_ENDS[] = {DESK_END};

struct desk_rig {
    struct constraint_desk *desk;
    sem_t done; /* as often as something can be taken */
};

static inline void desk_rig_on_done(void *arg)
{
    sem_post(&((struct desk_rig *)arg)->done);
}

static inline void desk_rig_wait(struct desk_rig *rig)
{
    while (sem_wait(&rig->done) != 0) /* EINTR */
        ;
}

static inline void desk_rig_open(struct desk_rig *rig, const char *folder, uint32_t waiting_max)
{
    const struct constraint_desk_options options = {
        .folder = folder,
        .vocabulary = DESK_VOCABULARY,
        .ends = DESK_ENDS,
        .n_ends = 1,
        .limits = {.bytes_max = 1 << 18,
                   .grammar_bytes_max = 1 << 18,
                   .choices_max = 1024,
                   .compile_ns = 60 * UINT64_C(1000000000),
                   .n_kept = 4},
        .waiting_max = waiting_max,
    };
    if (!text_is_built())
        cr_skip_test("this build has no Rust library");
    sem_init(&rig->done, 0, 0);
    cr_assert_eq(constraint_desk_create(&options, &rig->desk), STATUS_OK);
    constraint_desk_on_done(rig->desk, desk_rig_on_done, rig);
}

static inline void desk_rig_close(struct desk_rig *rig)
{
    constraint_desk_destroy(rig->desk);
    sem_destroy(&rig->done);
}

/* texts: one, borrowed. */
static inline struct reply_constraint desk_rig_regex(const char *const *texts)
{
    return (struct reply_constraint){.kind = REPLY_REGEX, .n_texts = 1, .texts = texts};
}

/* Takes long enough to compile for the next lines of a test. The caller frees it. */
static inline char *desk_rig_long_regex(void)
{
    enum { N = 20000 };
    char *text = malloc(16 * N);
    size_t n = 0;
    cr_assert_not_null(text);
    for (uint32_t i = 0; i < N; i++)
        n += (size_t)snprintf(text + n, 16, "%sw%u", i > 0 ? "|" : "", i * 7919 % 100003);
    return text;
}

static inline bool desk_mask_has(const uint32_t *mask, uint32_t id)
{
    return mask[id / 32] >> id % 32 & 1;
}
