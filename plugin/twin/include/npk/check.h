// Checked mode: what an API call tells the runtime before it runs.
//
// Every API function builds one `Instruction` and names its operands.  With NPK_TWIN_CHECKED=0 the class is
// empty and all of it compiles to nothing.
#ifndef NPK_CHECK_H
#define NPK_CHECK_H

#include <cstdarg>
#include <cstdint>
#include <cstdio>

#include "npk/core.h"
#include "npk/types.h"

namespace npk {

struct Site {
    const char* file;
    unsigned line;

    // As a default argument of an API function this yields the position of the caller.
    static constexpr Site here(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE())
    {
        return {file, line};
    }
};

// NPK_SITE ends a parameter list, NPK_PASS an argument list; both vanish in fast mode.
#if NPK_TWIN_CHECKED
#define NPK_SITE_ONLY [[maybe_unused]] ::npk::Site site = ::npk::Site::here()
#define NPK_SITE , NPK_SITE_ONLY
#define NPK_PASS_ONLY site
#define NPK_PASS , site
#define NPK_AT site
#else
#define NPK_SITE_ONLY
#define NPK_SITE
#define NPK_PASS_ONLY
#define NPK_PASS
#define NPK_AT (::npk::Site{nullptr, 0})
#endif

// Codes of the faults that headers raise; docs/errors has a page for each.
inline constexpr const char* kBounds = "NPK-RC01";
inline constexpr const char* kUnwritten = "NPK-RC02";
inline constexpr const char* kIllegal = "NPK-RC04";
inline constexpr const char* kCapacity = "NPK-RC05";
inline constexpr const char* kQueue = "NPK-RC06";
inline constexpr const char* kEvent = "NPK-RC07";
inline constexpr const char* kOperand = "NPK-RC08";

struct FaultText {
    NpkFaultReport report;
    char message[512];
};

__attribute__((cold, noinline, format(printf, 6, 7))) void
compose(FaultText& fault, const char* code, const char* rule, const char* api, Site site, const char* format, ...);

#if NPK_HAS_BODIES
NPK_BODY void compose(FaultText& fault, const char* code, const char* rule, const char* api, Site site,
                      const char* format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(fault.message, sizeof(fault.message), format, values);
    va_end(values);
    fault.report = NpkFaultReport{};
    fault.report.code = code;
    fault.report.rule = rule;
    fault.report.message = fault.message;
    fault.report.api = api;
    fault.report.file = site.file;
    fault.report.line = site.line;
}
#endif

[[noreturn]] __attribute__((cold, noinline)) inline void raise(const FaultText& fault)
{
    host_table->raise(&fault.report);
    __builtin_unreachable();
}

// The call that does not return takes its arguments in registers: Clang 14 describes the stack wrongly to the
// unwinder where several such calls of a function pass some on the stack.
template <class... Values>
[[noreturn]] __attribute__((always_inline)) inline void raise(const char* code, const char* rule, const char* api,
                                                              Site site, const char* format, Values... values)
{
    FaultText fault;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-security"
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    compose(fault, code, rule, api, site, format, values...);
#pragma GCC diagnostic pop
    raise(fault);
}

constexpr NpkMemory memory_of(AscendC::TPosition position)
{
    using AscendC::TPosition;
    switch (position) {
    case TPosition::A1:
    case TPosition::B1:
    case TPosition::C1:
    case TPosition::TSCM:
    case TPosition::SPM: return NPK_MEM_L1;
    case TPosition::A2: return NPK_MEM_L0A;
    case TPosition::B2: return NPK_MEM_L0B;
    case TPosition::C2: return NPK_MEM_BT;
    case TPosition::CO1: return NPK_MEM_L0C;
    case TPosition::C2PIPE2GM: return NPK_MEM_FB;
    case TPosition::VECIN:
    case TPosition::VECOUT:
    case TPosition::VECCALC: return NPK_MEM_UB;
    default: return NPK_MEM_GM;
    }
}

// log2 of the alignment of a start address in each memory.
constexpr unsigned alignment_of(NpkMemory memory)
{
    switch (memory) {
    case NPK_MEM_GM: return 0;
    case NPK_MEM_L0A:
    case NPK_MEM_L0B: return 9;
    case NPK_MEM_L0C:
    case NPK_MEM_BT:
    case NPK_MEM_FB: return 6;
    default: return 5;
    }
}

// kMove reads bytes that need not have been written: the destination inherits that, see `copied`.
enum Access : uint8_t { kRead = 0, kWrite = 1, kMove = 2 };

enum class Unit { kVector, kCube, kMove, kScalar };

#if NPK_TWIN_CHECKED

class Instruction {
public:
    Instruction(const char* api, NpkPipe pipe, Unit unit, Site site) : api_(api), pipe_(pipe), site_(site)
    {
        const uint32_t kind = core().kind;
        if ((unit == Unit::kVector && kind != NPK_CORE_AIV) || (unit == Unit::kCube && kind != NPK_CORE_AIC)) {
            raise(kOperand, "ErrorBuffer2", api, site, "%s runs on a %s core only", api,
                  unit == Unit::kVector ? "vector" : "cube");
        }
        host_table->check_issue(pipe);
    }

    // `rows` pieces of `bytes`, the starts `stride` bytes apart.
    void access(Access kind, const char* operand, NpkMemory memory, const void* address, uint64_t bytes,
                uint64_t rows = 1, int64_t stride = 0, int align = -1) const
    {
        if (bytes == 0 || rows == 0) {
            return;
        }
        NpkAccess record = {};
        record.api = api_;
        record.file = site_.file;
        record.line = site_.line;
        record.pipe = static_cast<uint8_t>(pipe_);
        record.memory = static_cast<uint8_t>(memory);
        record.write = static_cast<uint8_t>(kind);
        record.align = static_cast<uint8_t>(align < 0 ? alignment_of(memory) : static_cast<unsigned>(align));
        record.operand = operand;
        record.address = reinterpret_cast<uint64_t>(address);
        record.bytes = bytes;
        record.rows = rows;
        record.stride = stride;
        host_table->check_access(&record);
    }

    template <class Tensor>
    void in(const char* operand, const Tensor& tensor, uint64_t elements, int align = -1) const
    {
        access(kRead, operand, tensor.Memory(), tensor.Address(), elements * sizeof(typename Tensor::PrimType), 1, 0,
               align);
    }

    template <class Tensor>
    void out(const char* operand, const Tensor& tensor, uint64_t elements, int align = -1) const
    {
        access(kWrite, operand, tensor.Memory(), tensor.Address(), elements * sizeof(typename Tensor::PrimType), 1, 0,
               align);
    }

    // `count` pieces of `bytes`, one behind the other in the destination, `from_stride` apart in the source.
    void copied(NpkMemory to_memory, const void* to, NpkMemory from_memory, const void* from, uint64_t bytes,
                uint64_t count = 1, uint64_t from_stride = 0) const
    {
        host_table->check_copy(to_memory, reinterpret_cast<uint64_t>(to), from_memory,
                               reinterpret_cast<uint64_t>(from), bytes, count, from_stride);
    }

    void forget(NpkMemory memory, const void* address, uint64_t bytes) const
    {
        host_table->check_forget(memory, reinterpret_cast<uint64_t>(address), bytes);
    }

    // The value must not exceed `limit`.
    void limit(const char* what, uint64_t value, uint64_t limit) const
    {
        if (value > limit) {
            raise(kIllegal, "ParameterRange", api_, site_, "%s: %s is %llu, at most %llu is allowed", api_, what,
                  static_cast<unsigned long long>(value), static_cast<unsigned long long>(limit));
        }
    }

    void multiple(const char* what, uint64_t value, uint64_t unit) const
    {
        if (value % unit != 0) {
            raise(kIllegal, "ParameterRange", api_, site_, "%s: %s is %llu, not a multiple of %llu", api_, what,
                  static_cast<unsigned long long>(value), static_cast<unsigned long long>(unit));
        }
    }

    void require(bool good, const char* rule, const char* what) const
    {
        if (!good) {
            raise(kOperand, rule, api_, site_, "%s: %s", api_, what);
        }
    }

private:
    const char* api_;
    NpkPipe pipe_;
    Site site_;
};

#else

class Instruction {
public:
    constexpr Instruction(const char*, NpkPipe, Unit, Site) {}
    constexpr void access(Access, const char*, NpkMemory, const void*, uint64_t, uint64_t = 1, int64_t = 0,
                          int = -1) const
    {
    }
    template <class Tensor>
    constexpr void in(const char*, const Tensor&, uint64_t, int = -1) const
    {
    }
    template <class Tensor>
    constexpr void out(const char*, const Tensor&, uint64_t, int = -1) const
    {
    }
    constexpr void copied(NpkMemory, const void*, NpkMemory, const void*, uint64_t, uint64_t = 1, uint64_t = 0) const
    {
    }
    constexpr void forget(NpkMemory, const void*, uint64_t) const {}
    constexpr void limit(const char*, uint64_t, uint64_t) const {}
    constexpr void multiple(const char*, uint64_t, uint64_t) const {}
    constexpr void require(bool, const char*, const char*) const {}
};

#endif

} // namespace npk

#endif
