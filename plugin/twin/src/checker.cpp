#include "checker.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "fault.h"

namespace npk::twin {
namespace {

// Instructions of these pipes start in order and finish before the next one of the pipe reads what they wrote.
// The others need PipeBarrier between dependent instructions.
bool ordered_by_itself(uint32_t pipe)
{
    return pipe == NPK_PIPE_S || pipe == NPK_PIPE_M || pipe == NPK_PIPE_MTE1 || pipe == NPK_PIPE_FIX;
}

std::string text(const char* format, ...) __attribute__((format(printf, 1, 2)));

std::string text(const char* format, ...)
{
    char buffer[512];
    va_list values;
    va_start(values, format);
    vsnprintf(buffer, sizeof(buffer), format, values);
    va_end(values);
    return buffer;
}

NpkFaultReport report_of(const NpkAccess& access, const char* code, const char* rule, const std::string& message)
{
    NpkFaultReport report{};
    report.code = code;
    report.rule = rule;
    report.message = message.c_str();
    report.api = access.api;
    report.file = access.file;
    report.line = access.line;
    report.memory = access.memory;
    return report;
}

[[noreturn]] void fault(const NpkAccess& access, const char* code, const char* rule, const std::string& message,
                        uint64_t begin, uint64_t end, uint64_t limit)
{
    NpkFaultReport report = report_of(access, code, rule, message);
    report.begin = begin;
    report.end = end;
    report.limit = limit;
    raise_fault(report);
}

} // namespace

const char* memory_name(uint32_t memory)
{
    static const char* const names[] = {"GM", "UB", "L1", "L0A", "L0B", "L0C", "BT", "FB"};
    return memory < NPK_MEM_COUNT ? names[memory] : "?";
}

const char* pipe_name(uint32_t pipe)
{
    static const char* const names[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX", "ALL"};
    return pipe <= NPK_PIPE_COUNT ? names[pipe] : "?";
}

Checker::Checker(const NpkCore& core) : core_(core)
{
    for (uint32_t memory = NPK_MEM_UB; memory < NPK_MEM_COUNT; ++memory) {
        Shadow& shadow = shadows_[memory];
        shadow.base = reinterpret_cast<uint64_t>(core.memory[memory]);
        shadow.bytes = core.capacity[memory];
        // Scalars reach single elements of UB; everything else moves in blocks.
        shadow.shift = memory == NPK_MEM_UB ? 2 : 5;
        shadow.written.resize(shadow.bytes);
    }
}

void Checker::reset()
{
    for (Shadow& shadow : shadows_) {
        shadow.blocks.clear();
    }
    for (Clock& clock : clocks_) {
        clock = issued_;
    }
    for (auto& flags : flags_) {
        if (flags != nullptr) {
            flags->fill(Flag{});
        }
    }
}

void Checker::set_arguments(void* const* args, const uint64_t* bytes, uint32_t count)
{
    arguments_.clear();
    for (uint32_t i = 0; bytes != nullptr && i < count; ++i) {
        const uint64_t begin = reinterpret_cast<uint64_t>(args[i]);
        arguments_.push_back({begin, begin + bytes[i]});
    }
}

void Checker::issue(uint32_t pipe)
{
    ++issued_[pipe];
}

void Checker::global_access(const NpkAccess& access)
{
    if (arguments_.empty()) {
        return;
    }
    const uint64_t last = access.address + static_cast<uint64_t>(access.stride) * (access.rows - 1);
    const uint64_t begin = access.address, end = last + access.bytes;
    const Block* nearest = nullptr;
    std::size_t number = 0;
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
        const Block& block = arguments_[i];
        if (begin >= block.begin && end <= block.end) {
            return;
        }
        // The argument meant is the last one that starts at or before the access.
        if (block.begin <= begin && (nearest == nullptr || block.begin > nearest->begin)) {
            nearest = &block;
            number = i;
        }
    }
    const char* rule = access.write == 1 ? "ErrorWrite2" : "ErrorRead3";
    if (nearest == nullptr) {
        fault(access, "NPK-RC01", rule,
              text("%s %s %llu bytes in front of every argument of the kernel", access.api,
                   access.write == 1 ? "writes" : "reads", static_cast<unsigned long long>(end - begin)),
              0, end - begin, 0);
    }
    const uint64_t size = nearest->end - nearest->begin;
    fault(access, "NPK-RC01", rule,
          text("%s %s bytes %llu to %llu of argument %zu (counted from 0), which has %llu bytes", access.api,
               access.write == 1 ? "writes" : "reads", static_cast<unsigned long long>(begin - nearest->begin),
               static_cast<unsigned long long>(end - nearest->begin), number, static_cast<unsigned long long>(size)),
          begin - nearest->begin, end - nearest->begin, size);
}

void Checker::check_block(const NpkAccess& access, const Shadow& shadow, uint64_t begin, uint64_t end)
{
    const uint64_t unit = 1ull << access.align;
    const bool write = access.write == 1;
    if (begin % unit != 0) {
        fault(access, "NPK-RC04", write ? "ErrorWrite4" : "ErrorRead4",
              text("%s: %s starts at byte %llu of %s, which is not a multiple of %llu", access.api, access.operand,
                   static_cast<unsigned long long>(begin), memory_name(access.memory),
                   static_cast<unsigned long long>(unit)),
              begin, end, unit);
    }
    const Block* holder = nullptr;
    for (const Block& block : shadow.blocks) {
        if (begin >= block.begin && begin < block.end) {
            holder = &block;
            break;
        }
    }
    if (holder == nullptr) {
        fault(access, "NPK-RC01", write ? "ErrorWrite1" : "ErrorRead1",
              text("%s: %s lies at bytes %llu to %llu of %s, where no buffer is allocated", access.api,
                   access.operand, static_cast<unsigned long long>(begin), static_cast<unsigned long long>(end),
                   memory_name(access.memory)),
              begin, end, shadow.bytes);
    }
    if (end > holder->end) {
        fault(access, "NPK-RC01", write ? "ErrorWrite2" : "ErrorRead3",
              text("%s: %s reaches byte %llu of its buffer of %llu bytes in %s", access.api, access.operand,
                   static_cast<unsigned long long>(end - holder->begin),
                   static_cast<unsigned long long>(holder->end - holder->begin), memory_name(access.memory)),
              begin - holder->begin, end - holder->begin, holder->end - holder->begin);
    }
}

void Checker::check_written(const NpkAccess& access, const Shadow& shadow, uint64_t begin, uint64_t end)
{
    const uint8_t* first = shadow.written.data() + begin;
    const void* hole = memchr(first, 0, end - begin);
    if (hole == nullptr) {
        return;
    }
    const uint64_t at = begin + static_cast<uint64_t>(static_cast<const uint8_t*>(hole) - first);
    fault(access, "NPK-RC02", "ErrorRead2",
          text("%s reads bytes %llu to %llu of %s as %s, but byte %llu was never written", access.api,
               static_cast<unsigned long long>(begin), static_cast<unsigned long long>(end),
               memory_name(access.memory), access.operand, static_cast<unsigned long long>(at)),
          at, end, end - begin);
}

void Checker::hazard_fault(const NpkAccess& access, uint32_t pipe, uint32_t number, uint64_t begin, uint64_t end,
                           Hazard hazard)
{
    const Instruction& other = history_[pipe][number % kHistory];
    const bool known = other.number == number;
    const std::string missing = pipe == access.pipe
                                    ? text("PipeBarrier<PIPE_%s>", pipe_name(pipe))
                                    : text("SetFlag/WaitFlag<HardEvent::%s_%s>", pipe_name(pipe), pipe_name(access.pipe));
    fault(access, "NPK-RC03", hazard == Hazard::kReadAfterWrite ? "ErrorSync2" : "ErrorSync1",
          text("%s (%s) %s bytes %llu to %llu of %s, which %s (%s%s) %s and may not have finished; %s is missing "
               "between them",
               access.api, pipe_name(access.pipe), access.write == 1 ? "writes" : "reads",
               static_cast<unsigned long long>(begin), static_cast<unsigned long long>(end),
               memory_name(access.memory), known ? other.api : "an earlier instruction", pipe_name(pipe),
               known && other.line != 0 ? text(", line %u", other.line).c_str() : "",
               hazard == Hazard::kWriteAfterRead ? "reads" : "writes", missing.c_str()),
          begin, end, 0);
}

void Checker::scan(const NpkAccess& access, const Shadow& shadow, const std::vector<uint32_t>& marks, uint32_t pipe,
                   uint64_t begin, uint64_t end, Hazard hazard)
{
    const uint32_t known = clocks_[access.pipe][pipe];
    const uint32_t current = pipe == access.pipe ? issued_[pipe] : 0;
    const uint64_t first = begin >> shadow.shift, last = (end - 1) >> shadow.shift;
    uint32_t newest = 0;
    for (uint64_t cell = first; cell <= last; ++cell) {
        const uint32_t number = marks[cell] == current ? 0 : marks[cell];
        newest = number > newest ? number : newest;
    }
    if (newest > known) {
        hazard_fault(access, pipe, newest, begin, end, hazard);
    }
}

void Checker::check_order(const NpkAccess& access, const Shadow& shadow, uint64_t begin, uint64_t end)
{
    const bool write = access.write == 1;
    for (uint32_t pipe = 0; pipe < NPK_PIPE_COUNT; ++pipe) {
        const uint32_t known = clocks_[access.pipe][pipe];
        const bool same = pipe == access.pipe;
        if (same && ordered_by_itself(pipe)) {
            continue;
        }
        if (shadow.last_write[pipe] > known) {
            scan(access, shadow, shadow.writes[pipe], pipe, begin, end,
                 write ? Hazard::kWriteAfterWrite : Hazard::kReadAfterWrite);
        }
        // Within a pipe a later instruction never overtakes the reads of an earlier one; a scalar read delivers
        // its value before the next instruction is issued.
        if (write && !same && pipe != NPK_PIPE_S && shadow.last_read[pipe] > known) {
            scan(access, shadow, shadow.reads[pipe], pipe, begin, end, Hazard::kWriteAfterRead);
        }
    }
}

void Checker::mark(std::vector<uint32_t>& marks, const Shadow& shadow, uint64_t begin, uint64_t end, uint32_t pipe)
{
    if (marks.empty()) {
        marks.resize((shadow.bytes >> shadow.shift) + 1);
    }
    std::fill(marks.begin() + static_cast<std::ptrdiff_t>(begin >> shadow.shift),
              marks.begin() + static_cast<std::ptrdiff_t>(((end - 1) >> shadow.shift) + 1), issued_[pipe]);
}

void Checker::access(const NpkAccess& access)
{
    history_[access.pipe][issued_[access.pipe] % kHistory] = {issued_[access.pipe], access.line, access.api};
    if (access.memory == NPK_MEM_GM) {
        global_access(access);
        return;
    }
    Shadow& shadow = shadows_[access.memory];
    for (uint64_t row = 0; row < access.rows; ++row) {
        const uint64_t begin = access.address + static_cast<uint64_t>(access.stride) * row - shadow.base;
        const uint64_t end = begin + access.bytes;
        // Only the start of an operand must be aligned; the memory's own alignment covers strides.
        NpkAccess piece = access;
        piece.align = row == 0 ? access.align : 0;
        check_block(piece, shadow, begin, end);
        if (access.write == 0) {
            check_written(access, shadow, begin, end);
        }
        check_order(access, shadow, begin, end);
        if (access.write == 1) {
            memset(shadow.written.data() + begin, 1, access.bytes);
            mark(shadow.writes[access.pipe], shadow, begin, end, access.pipe);
            shadow.last_write[access.pipe] = issued_[access.pipe];
        } else if (access.pipe != NPK_PIPE_S) {
            mark(shadow.reads[access.pipe], shadow, begin, end, access.pipe);
            shadow.last_read[access.pipe] = issued_[access.pipe];
        }
    }
}

void Checker::copy(uint32_t to_memory, uint64_t to, uint32_t from_memory, uint64_t from, uint64_t bytes,
          uint64_t count, uint64_t from_stride)
{
    if (from_memory == NPK_MEM_GM || to_memory == NPK_MEM_GM) {
        return;
    }
    const Shadow& source = shadows_[from_memory];
    Shadow& target = shadows_[to_memory];
    for (uint64_t i = 0; i < count; ++i) {
        memcpy(target.written.data() + (to - target.base) + i * bytes,
               source.written.data() + (from - source.base) + i * from_stride, bytes);
    }
}

void Checker::forget(uint32_t memory, uint64_t address, uint64_t bytes)
{
    Shadow& shadow = shadows_[memory];
    memset(shadow.written.data() + (address - shadow.base), 0, bytes);
}

Checker::Flag& Checker::flag(uint32_t from, uint32_t to, uint32_t id)
{
    auto& flags = flags_[from * NPK_PIPE_COUNT + to];
    if (flags == nullptr) {
        flags = std::make_unique<std::array<Flag, kFlags>>();
    }
    return (*flags)[id];
}

void Checker::set_flag(uint32_t from, uint32_t to, uint32_t id, const char* file, uint32_t line)
{
    NpkAccess at{};
    at.api = "SetFlag";
    at.file = file;
    at.line = line;
    if (id >= kFlags || (id >= 8 && id < 16)) {
        fault(at, "NPK-RC07", "EventId", text("event id %u: the ids of a pair of pipes are 0 to 7", id), 0, 0, 8);
    }
    Flag& entry = flag(from, to, id);
    if (entry.set && id < 8) {
        fault(at, "NPK-RC07", "ErrorSync4",
              text("event %u of %s_%s is set twice; it was set in line %u and not waited for since", id,
                   pipe_name(from), pipe_name(to), entry.line),
              0, 0, 0);
    }
    entry.set = true;
    entry.clock = clocks_[from];
    entry.clock[from] = issued_[from];
    entry.file = file;
    entry.line = line;
}

void Checker::wait_flag(uint32_t from, uint32_t to, uint32_t id, const char* file, uint32_t line)
{
    NpkAccess at{};
    at.api = "WaitFlag";
    at.file = file;
    at.line = line;
    if (id >= kFlags || (id >= 8 && id < 16)) {
        fault(at, "NPK-RC07", "EventId", text("event id %u: the ids of a pair of pipes are 0 to 7", id), 0, 0, 8);
    }
    Flag& entry = flag(from, to, id);
    if (!entry.set) {
        fault(at, "NPK-RC07", "ErrorSync3",
              text("event %u of %s_%s is waited for but was not set; the core would wait for ever", id,
                   pipe_name(from), pipe_name(to)),
              0, 0, 0);
    }
    entry.set = false;
    // A scalar wait holds up the issue of every later instruction, whatever its pipe.
    for (uint32_t pipe = 0; pipe < NPK_PIPE_COUNT; ++pipe) {
        if (pipe == to || to == NPK_PIPE_S) {
            for (uint32_t i = 0; i < NPK_PIPE_COUNT; ++i) {
                clocks_[pipe][i] = std::max(clocks_[pipe][i], entry.clock[i]);
            }
        }
    }
}

void Checker::barrier(uint32_t pipe)
{
    if (pipe == NPK_PIPE_ALL) {
        for (Clock& clock : clocks_) {
            clock = issued_;
        }
        return;
    }
    clocks_[pipe][pipe] = issued_[pipe];
}

void Checker::allocate(uint32_t memory, uint64_t address, uint64_t bytes)
{
    Shadow& shadow = shadows_[memory];
    const uint64_t begin = address - shadow.base;
    if (bytes == 0) {
        return;
    }
    shadow.blocks.push_back({begin, begin + bytes});
    memset(shadow.written.data() + begin, 0, bytes);
}

void Checker::release(uint32_t memory, uint64_t address, uint64_t bytes)
{
    (void)bytes;
    Shadow& shadow = shadows_[memory];
    const uint64_t begin = address - shadow.base;
    shadow.blocks.erase(std::remove_if(shadow.blocks.begin(), shadow.blocks.end(),
                                       [begin](const Block& block) { return block.begin == begin; }),
                        shadow.blocks.end());
}

void Checker::finish()
{
    for (uint32_t from = 0; from < NPK_PIPE_COUNT; ++from) {
        for (uint32_t to = 0; to < NPK_PIPE_COUNT; ++to) {
            const auto& flags = flags_[from * NPK_PIPE_COUNT + to];
            for (uint32_t id = 0; flags != nullptr && id < 8; ++id) {
                const Flag& entry = (*flags)[id];
                if (entry.set) {
                    NpkAccess at{};
                    at.api = "SetFlag";
                    at.file = entry.file;
                    at.line = entry.line;
                    fault(at, "NPK-RC07", "ErrorSync3",
                          text("event %u of %s_%s was set and never waited for", id, pipe_name(from), pipe_name(to)),
                          0, 0, 0);
                }
            }
        }
    }
}

} // namespace npk::twin
