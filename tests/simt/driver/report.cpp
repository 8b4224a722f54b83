/* What the double says: reports, notes, the last word; and the objects that the last word lists. */
#include "double.h"

#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

std::recursive_mutex big_lock;
size_t n_calls;
std::map<std::string, size_t> &n_of_kernels = *new std::map<std::string, size_t>;
bool ended;
static size_t n_reports;

static void say(const char *kind, const char *format, va_list args)
{
    char s[900];
    vsnprintf(s, sizeof s, format, args);
    fprintf(stderr, "cuda-double: %s%s%s\n", kind, *kind ? ": " : "", s);
}

void report(const char *kind, const char *format, ...)
{
    static bool silent = getenv("DOUBLE_REPORTS") && !strcmp(getenv("DOUBLE_REPORTS"), "off");
    va_list args;
    va_start(args, format);
    say((std::string("REPORT ") + kind).c_str(), format, args);
    va_end(args);
    n_reports += !silent;
}

void note(const char *format, ...)
{
    static bool on = getenv("DOUBLE_NOTES") != nullptr;
    va_list args;
    va_start(args, format);
    if (on)
        say("note", format, args);
    va_end(args);
}

void unsupported(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("NOT COVERED BY THE DOUBLE", format, args);
    va_end(args);
    abort();
}

long setting(const char *name, long otherwise)
{
    const char *s = getenv(name);
    return s ? strtol(s, nullptr, 10) : otherwise;
}

/* ---- objects ---- */

std::map<void *, const char *> handles;
static std::vector<void *> &retired = *new std::vector<void *>;

void retire(void *object)
{
    handles.erase(object);
    retired.push_back(object);
}

bool is(const void *handle, const char *kind)
{
    auto it = handles.find(const_cast<void *>(handle));
    if (it != handles.end() && it->second == std::string(kind))
        return true;
    if (handle)
        report("bad handle", "%p is no %s, or is destroyed", handle, kind);
    return false;
}

std::string describe(void *handle)
{
    std::string kind = handles[handle];
    return kind == "stream" ? kind + " " + std::to_string(static_cast<Stream *>(handle)->ordinal)
                            : kind;
}

static std::vector<std::string> left_over()
{
    std::vector<std::string> left;
    if (sticky)
        return left;
    drain();
    if (primary_retained) {
        for (auto &h : handles)
            left.push_back(describe(h.first));
        left.push_back("primary context (retained " + std::to_string(primary_retained) + " times)");
    }
    list_leaked_memory(left);
    return left;
}

int finish(int status)
{
    std::lock_guard<std::recursive_mutex> hold(big_lock);
    InLibrary in;
    if (!ended && initialised) {
        std::vector<std::string> left = left_over();
        if (status && !left.empty())
            fprintf(stderr, "cuda-double: %zu objects left over by a process that ends with %d\n",
                    left.size(), status);
        else
            for (auto &s : left)
                report("leak", "%s", s.c_str());
        if (n_reports || getenv("DOUBLE_SUMMARY"))
            fprintf(stderr, "cuda-double: %zu calls, %zu operations, %zu kernels, %zu reports\n",
                    n_calls, n_operations, n_kernels, n_reports);
        for (auto &k : n_of_kernels)
            if (getenv("DOUBLE_SUMMARY"))
                fprintf(stderr, "cuda-double: kernel %s %zu\n", k.first.c_str(), k.second);
    }
    ended = true;
    return n_reports && !status ? 97 : status;
}
