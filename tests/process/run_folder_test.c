/* run_folder: one key of the user, whoever asks first; serves' keys as long as somebody holds them; nothing in
 * a folder that others can reach. */
#include "process/run_folder.h"
#include "tests/base/support/folder.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char session[64];

static void make_session(void)
{
    snprintf(session, sizeof session, "/tmp/kvferry-run-XXXXXX");
    cr_assert_not_null(mkdtemp(session));
    cr_assert_eq(setenv("XDG_RUNTIME_DIR", session, 1), 0);
}

static void remove_session(void)
{
    folder_remove(session);
}

static const char *in_folder(const char *name)
{
    static char path[sizeof session + sizeof "/kvferry/" + NAME_MAX];
    snprintf(path, sizeof path, "%s/kvferry/%s", session, name);
    return path;
}

TestSuite(run_folder, .init = make_session, .fini = remove_session);

Test(run_folder, all_that_start_at_once_have_one_key)
{
    enum { N = 16 };
    struct key_set first, other;
    char path[RUN_PATH_MAX];
    struct error error;
    pid_t children[N];
    for (int i = 0; i < N; i++) {
        children[i] = fork();
        if (children[i] == 0)
            _exit(run_folder_user_key(path, &error) == STATUS_OK &&
                          key_file_read(path, &first, &error) == STATUS_OK
                      ? 0
                      : 1);
    }
    for (int i = 0; i < N; i++) {
        int status;
        cr_assert_eq(waitpid(children[i], &status, 0), children[i]);
        cr_expect_eq(status, 0, "one found half a key, or none");
    }
    cr_assert_eq(run_folder_user_key(path, &error), STATUS_OK);
    cr_assert_str_eq(path, in_folder("user.key"));
    cr_assert_eq(key_file_read(path, &first, &error), STATUS_OK);
    cr_assert_eq(run_folder_keys(0, &other, 1), 1);
    cr_assert_eq(memcmp(&first, &other, sizeof first), 0);
}

Test(run_folder, a_folder_that_others_can_reach_is_not_used)
{
    char path[RUN_PATH_MAX];
    struct error error;
    cr_assert_eq(run_folder_open(path, &error), STATUS_OK);
    cr_assert_eq(strncmp(path, session, strlen(session)), 0, "%s", path);
    struct stat stat_out;
    cr_assert_eq(stat(path, &stat_out), 0);
    cr_assert_eq(stat_out.st_mode & 07777, 0700);
    cr_assert_eq(chmod(path, 0750), 0);
    (void)!run_folder_open(path, &error); /* another place, or none */
    cr_expect_neq(strncmp(path, session, strlen(session)), 0, "%s", path);
    cr_assert_eq(rmdir(in_folder("")), 0);
    char link[RUN_PATH_MAX];
    snprintf(link, sizeof link, "%s/kvferry", session);
    cr_assert_eq(symlink(session, link), 0);
    (void)!run_folder_open(path, &error);
    cr_expect_neq(strncmp(path, session, strlen(session)), 0, "a link was followed: %s", path);
}

Test(run_folder, a_key_that_is_left_is_found_until_it_is_taken_away)
{
    struct key_set drawn, found[4];
    struct run_key key = {.path = ""};
    struct error error;
    cr_assert_eq(key_set_draw(&drawn, &error), STATUS_OK);
    cr_assert_eq(run_folder_leave(&drawn, &key, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(run_folder_keys(0, found, 4), 1);
    cr_assert_eq(memcmp(&found[0], &drawn, sizeof drawn), 0);
    run_folder_take_away(&key);
    cr_assert_eq(run_folder_keys(0, found, 4), 0);
    run_folder_take_away(&key);
}

Test(run_folder, a_key_comes_first_for_the_ports_of_its_process_and_last_for_others)
{
    static const uint16_t PORTS[] = {50051, 50052};
    struct key_set drawn, found[4];
    struct run_key key = {.path = ""};
    struct error error;
    char path[RUN_PATH_MAX];
    cr_assert_eq(key_set_draw(&drawn, &error), STATUS_OK);
    cr_assert_eq(run_folder_user_key(path, &error), STATUS_OK);
    cr_assert_eq(run_folder_leave(&drawn, &key, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(run_folder_keys(50051, found, 4), 2, "before its ports are told it may be any");
    cr_assert_neq(memcmp(&found[0], &drawn, sizeof drawn), 0, "the user's is likelier");
    run_folder_tell_ports(&key, PORTS, 2);
    cr_assert_eq(run_folder_keys(50052, found, 4), 2);
    cr_assert_eq(memcmp(&found[0], &drawn, sizeof drawn), 0, "its own port: first");
    cr_assert_eq(run_folder_keys(5005, found, 4), 2, "a port of somebody else, or of a proxy");
    cr_assert_neq(memcmp(&found[0], &drawn, sizeof drawn), 0);
    cr_assert_eq(run_folder_keys(0, found, 4), 2);
    run_folder_take_away(&key);
    cr_assert_eq(run_folder_keys(50052, found, 4), 1);
    snprintf(path, sizeof path, "serve-%d.ports", (int)getpid());
    cr_assert_eq(access(in_folder(path), F_OK), -1);
}

Test(run_folder, what_a_killed_process_has_left_is_swept)
{
    struct key_set drawn, found[4];
    struct error error;
    int ends[2];
    cr_assert_eq(key_set_draw(&drawn, &error), STATUS_OK);
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct run_key key = {.path = ""};
        char is_left = run_folder_leave(&drawn, &key, &error) == STATUS_OK ? 'y' : 'n';
        (void)!write(ends[1], &is_left, 1);
        pause();
    }
    char is_left = 'n';
    cr_assert_eq(read(ends[0], &is_left, 1), 1);
    cr_assert_eq(is_left, 'y');
    cr_assert_eq(run_folder_keys(0, found, 4), 1, "another process sees it while it is held");
    kill(child, SIGKILL);
    cr_assert_eq(waitpid(child, NULL, 0), child);
    cr_assert_eq(run_folder_keys(0, found, 4), 0);
    char name[64];
    snprintf(name, sizeof name, "serve-%d.key", (int)child);
    cr_assert_eq(access(in_folder(name), F_OK), -1);
}
