// Checked mode of one core: allocation, initialisation and ordering of every access to its on-chip memories.
//
// Instructions belong to pipes that run on their own.  Each pipe carries a vector clock: entry p says up to which
// instruction of pipe p everything is known to have finished.  Flags and barriers pass clocks on.  Every cell of
// memory remembers the last instruction of each pipe that wrote and read it; an access is legal when the clock of
// its pipe covers the conflicting ones.  So a missing flag is found even though the host ran in a good order.
#ifndef NPK_TWIN_CHECKER_H
#define NPK_TWIN_CHECKER_H

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "npk/abi.h"

namespace npk::twin {

class Checker {
public:
    explicit Checker(const NpkCore& core);

    // Before a kernel starts on the core: nothing is allocated, nothing is in flight.
    void reset();

    // Byte ranges of the launch's arguments.
    void set_arguments(void* const* args, const uint64_t* bytes, uint32_t count);

    void issue(uint32_t pipe);
    void access(const NpkAccess& access);
    void copy(uint32_t to_memory, uint64_t to, uint32_t from_memory, uint64_t from, uint64_t bytes,
          uint64_t count, uint64_t from_stride);
    void forget(uint32_t memory, uint64_t address, uint64_t bytes);
    void set_flag(uint32_t from, uint32_t to, uint32_t id, const char* file, uint32_t line);
    void wait_flag(uint32_t from, uint32_t to, uint32_t id, const char* file, uint32_t line);
    void barrier(uint32_t pipe);
    void allocate(uint32_t memory, uint64_t address, uint64_t bytes);
    void release(uint32_t memory, uint64_t address, uint64_t bytes);

    // After the kernel returned: flags that nobody waited for.
    void finish();

private:
    using Clock = std::array<uint32_t, NPK_PIPE_COUNT>;

    struct Block {
        uint64_t begin;
        uint64_t end;
    };

    struct Flag {
        bool set = false;
        Clock clock{};
        uint32_t line = 0;
        const char* file = nullptr;
    };

    struct Instruction {
        uint32_t number = 0;
        uint32_t line = 0;
        const char* api = "";
    };

    // Marks of one memory, in cells of `cell` bytes.
    struct Shadow {
        uint64_t base = 0;
        uint64_t bytes = 0;
        uint32_t shift = 2;
        std::vector<Block> blocks;
        std::vector<uint8_t> written; // one for each byte
        std::array<std::vector<uint32_t>, NPK_PIPE_COUNT> writes;
        std::array<std::vector<uint32_t>, NPK_PIPE_COUNT> reads;
        std::array<uint32_t, NPK_PIPE_COUNT> last_write{};
        std::array<uint32_t, NPK_PIPE_COUNT> last_read{};
    };

    enum class Hazard { kReadAfterWrite, kWriteAfterWrite, kWriteAfterRead };

    void global_access(const NpkAccess& access);
    void check_block(const NpkAccess& access, const Shadow& shadow, uint64_t begin, uint64_t end);
    void check_written(const NpkAccess& access, const Shadow& shadow, uint64_t begin, uint64_t end);
    void check_order(const NpkAccess& access, const Shadow& shadow, uint64_t begin, uint64_t end);
    void scan(const NpkAccess& access, const Shadow& shadow, const std::vector<uint32_t>& marks, uint32_t pipe,
              uint64_t begin, uint64_t end, Hazard hazard);
    void mark(std::vector<uint32_t>& marks, const Shadow& shadow, uint64_t begin, uint64_t end, uint32_t pipe);
    [[noreturn]] void hazard_fault(const NpkAccess& access, uint32_t pipe, uint32_t number, uint64_t begin,
                                   uint64_t end, Hazard hazard);
    Flag& flag(uint32_t from, uint32_t to, uint32_t id);

    static constexpr uint32_t kHistory = 1024;
    static constexpr uint32_t kFlags = 16 + 64 + 64; // the kernel's ids, then two for each queue buffer

    const NpkCore& core_;
    std::array<Shadow, NPK_MEM_COUNT> shadows_;
    std::array<Clock, NPK_PIPE_COUNT> clocks_{};
    Clock issued_{};
    std::array<std::array<Instruction, kHistory>, NPK_PIPE_COUNT> history_{};
    std::array<std::unique_ptr<std::array<Flag, kFlags>>, NPK_PIPE_COUNT * NPK_PIPE_COUNT> flags_;
    std::vector<Block> arguments_;
};

// Name of a memory or a pipe in messages.
const char* memory_name(uint32_t memory);
const char* pipe_name(uint32_t pipe);

} // namespace npk::twin

#endif
