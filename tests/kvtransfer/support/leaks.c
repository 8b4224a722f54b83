/* What LeakSanitizer is to overlook: 100 bytes that UCX 1.13.1 keeps when the key of a dead owner's
 * shared memory cannot be attached. Nothing of ours allocates below libuct. */

const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:libuct.so\n";
}
