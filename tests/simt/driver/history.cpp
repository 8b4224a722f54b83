/* Who touched which bytes: whether they were ordered, byte by byte, whatever ran when. And the copies and fills themselves. */
#include "double.h"

#include <cstring>

static std::map<uint64_t, Segment>::iterator split(std::map<uint64_t, Segment> &m, uint64_t at)
{
    auto it = m.upper_bound(at);
    if (it == m.begin())
        return it;
    auto before = std::prev(it);
    if (before->first == at)
        return before;
    if (before->second.end <= at)
        return it;
    Segment tail = before->second;
    before->second.end = at;
    return m.emplace(at, tail).first;
}

static bool clash(const OperationRef &a, const OperationRef &b)
{
    return a && a != b && !ordered(*a, *b) && !ordered(*b, *a);
}

static void complain(const OperationRef &operation, bool write, const OperationRef &other,
                     bool other_wrote, const Allocation &a, uint64_t begin, uint64_t end)
{
    static std::set<std::pair<std::string, std::string>> said;
    if (said.insert({operation->what(), other->what()}).second)
        report("race", "%s %s [+%llu, +%llu) of %s, %s by %s, with no order between them",
               operation->what().c_str(), write ? "writes" : "reads",
               static_cast<unsigned long long>(begin - a.base),
               static_cast<unsigned long long>(end - a.base), a.name().c_str(),
               other_wrote ? "written" : "read", other->what().c_str());
}

static void add_read(Segment &segment, const OperationRef &operation)
{
    for (auto &r : segment.reads)
        if (r->lane == operation->lane) {
            if (r->number < operation->number)
                r = operation;
            return;
        }
    segment.reads.push_back(operation);
}

static void touch(Segment &s, uint64_t begin, const OperationRef &operation, bool write,
                  const Allocation &a)
{
    if (!write && !s.write && a.kind == Allocation::device)
        note("%s reads bytes of %s that nothing has written", operation->what().c_str(),
             a.name().c_str());
    if (clash(s.write, operation))
        complain(operation, write, s.write, true, a, begin, s.end);
    if (!write)
        return add_read(s, operation);
    for (auto &r : s.reads)
        if (clash(r, operation))
            complain(operation, write, r, false, a, begin, s.end);
    s.write = operation;
    s.reads.clear();
}

/* What one operation wrote is one segment again. */
static void merge(std::map<uint64_t, Segment> &m, uint64_t begin, uint64_t end)
{
    auto it = m.lower_bound(begin);
    it->second.end = end;
    for (auto next = std::next(it); next != m.end() && next->first < end;)
        next = m.erase(next);
}

void note_access(const OperationRef &operation, uint64_t begin, uint64_t end, bool write)
{
    Allocation *a = find(begin);
    if (!a)
        return;
    end = std::min(end, a->base + a->bytes);
    auto &m = a->history;
    split(m, begin);
    split(m, end);
    uint64_t at = begin;
    for (auto it = m.lower_bound(begin); at < end; ++it) {
        if (it == m.end() || it->first > at) { /* never touched before */
            uint64_t stop = it == m.end() ? end : std::min(end, it->first);
            it = m.emplace(at, Segment{stop, nullptr, {}}).first;
        }
        touch(it->second, at, operation, write, *a);
        at = it->second.end;
    }
    if (write)
        merge(m, begin, end);
}

/* The bytes at an address; null: they are not there any more. */
static uint8_t *reach(const OperationRef &operation, uint64_t address, size_t bytes)
{
    Allocation *a = find(address);
    if (a && bytes <= a->base + a->bytes - address)
        return a->alias + (address - a->base);
    report("use after free", "%s: %s", operation->what().c_str(), explain(address).c_str());
    context_fails(CUDA_ERROR_ILLEGAL_ADDRESS, operation);
    return nullptr;
}

void execute_copy(const OperationRef &operation)
{
    InLibrary in;
    const Work &w = operation->work;
    uint8_t *to = reach(operation, w.to, w.bytes), *from = reach(operation, w.from, w.bytes);
    if (!to || !from)
        return;
    note_access(operation, w.from, w.from + w.bytes, false);
    note_access(operation, w.to, w.to + w.bytes, true);
    memmove(to, from, w.bytes);
}

void execute_fill(const OperationRef &operation)
{
    const Work &w = operation->work;
    uint8_t *to = reach(operation, w.to, w.bytes);
    if (!to)
        return;
    note_access(operation, w.to, w.to + w.bytes, true);
    memset(to, w.value, w.bytes);
}
