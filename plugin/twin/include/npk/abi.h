// The C boundary between a compiled kernel library and the twin's runtime.
//
// A kernel library links against nothing of the runtime: it exports `npk_kernel_desc`, receives a table of
// host functions and gives back a description of its kernel.  Only plain C types cross the boundary, so the
// two sides may come from different C++ compilers.
#ifndef NPK_ABI_H
#define NPK_ABI_H

#include <stddef.h>
#include <stdint.h>

#define NPK_ABI_VERSION 2u

#ifdef __cplusplus
extern "C" {
#endif

typedef enum NpkKernelType {
    NPK_KERNEL_AIV_ONLY = 0,
    NPK_KERNEL_AIC_ONLY = 1,
    NPK_KERNEL_MIX_AIC_1_1 = 2,
    NPK_KERNEL_MIX_AIC_1_2 = 3,
} NpkKernelType;

typedef enum NpkCoreKind { NPK_CORE_AIC = 0, NPK_CORE_AIV = 1 } NpkCoreKind;

// Physical memories of a core; GM is shared by all cores and has no base address here.
typedef enum NpkMemory {
    NPK_MEM_GM = 0,
    NPK_MEM_UB,
    NPK_MEM_L1,
    NPK_MEM_L0A,
    NPK_MEM_L0B,
    NPK_MEM_L0C,
    NPK_MEM_BT,
    NPK_MEM_FB,
    NPK_MEM_COUNT,
} NpkMemory;

// Instruction queues of a core.
typedef enum NpkPipe {
    NPK_PIPE_S = 0,
    NPK_PIPE_V,
    NPK_PIPE_M,
    NPK_PIPE_MTE1,
    NPK_PIPE_MTE2,
    NPK_PIPE_MTE3,
    NPK_PIPE_FIX,
    NPK_PIPE_COUNT,
    NPK_PIPE_ALL = NPK_PIPE_COUNT,
} NpkPipe;

// Barriers between cores; cores that wait at one kind do not count at another.
typedef enum NpkBarrier {
    NPK_BARRIER_VECTOR = 0, // all vector cores
    NPK_BARRIER_ALL,        // all cores of a mixed kernel
    NPK_BARRIER_SOFT,       // the first vector cores, as many as the call says
    NPK_BARRIER_COUNT,
} NpkBarrier;

// State of the core that runs the calling code.  Owned by the runtime; the API headers read and write it.
typedef struct NpkCore {
    uint32_t kind;          // NpkCoreKind
    uint32_t block_idx;     // what GetBlockIdx returns: vector cores of a 1:2 mix count 0 .. 2 * blocks - 1
    uint32_t block_num;     // blocks of the launch
    uint32_t sub_block_idx; // vector core within its group
    uint32_t ratio;         // vector cores per cube core in a mixed kernel, else 1
    uint32_t kernel_type;   // NpkKernelType

    uint8_t* memory[NPK_MEM_COUNT];
    uint32_t capacity[NPK_MEM_COUNT]; // bytes usable by a kernel

    // Special-purpose registers of the vector and move units.
    uint64_t mask[2];    // [0]: low 64 bits, or the element count in counter mode; [1]: high 64 bits
    uint32_t mask_mode;  // 0 normal, 1 counter
    uint32_t atomic_op;  // 0 none, 1 add, 2 max, 3 min
    float deq_scale;     // set by SetDeqScale

    uint8_t* scratch;    // working memory of the host thread, for one API call at a time
    uint64_t scratch_bytes;

    void* pipe;          // the live TPipe of this core
    uint32_t unwinding;  // 1 while a fault unwinds this core's stack
    uint32_t reserved;
    uint8_t* workspace; // base given to SetSysWorkspace, or null
    void* runtime; // runtime's own record of the core
} NpkCore;

// A violated rule.  Strings live until the call returns.
typedef struct NpkFaultReport {
    const char* code;    // "NPK-RC01"
    const char* rule;    // the vendor checker's name of the rule, "ErrorRead2", or a short name of our own
    const char* message; // one sentence with the numbers
    const char* api;     // Ascend C call, may be null
    const char* file;    // source position of the call, may be null
    uint32_t line;
    uint32_t memory;     // NpkMemory
    uint64_t begin;      // byte range within the memory (GM: within the argument)
    uint64_t end;
    uint64_t limit;      // size of the allocation or bound that was broken
} NpkFaultReport;

// One operand of an instruction, for the checker.
typedef struct NpkAccess {
    const char* api;
    const char* file;
    uint32_t line;
    uint8_t pipe;   // NpkPipe
    uint8_t memory; // NpkMemory
    uint8_t write;  // 0 read, 1 write, 2 read that takes over whether bytes were written (see check_copy)
    uint8_t align;  // log2 of the required alignment of the start address in bytes
    const char* operand; // "dst", "src0", ...
    uint64_t address;    // host address of the first byte
    // `rows` pieces of `bytes`, the starts `stride` bytes apart
    uint64_t bytes;
    uint64_t rows;
    int64_t stride;
} NpkAccess;

// Functions the runtime offers to a kernel library.
typedef struct NpkHost {
    uint32_t abi_version;
    uint32_t struct_size;

    NpkCore* (*current)(void);
    // Ends the calling core with a fault; never returns (unwinds the core's stack).
    void (*raise)(const NpkFaultReport* report);
    void (*print)(const char* text, size_t bytes);

    // Synchronisation between cores; each may suspend the calling core.
    void (*sync_all)(uint32_t barrier, uint32_t cores, const char* file, uint32_t line); // cores: see NpkBarrier
    void (*cross_set)(uint32_t mode, uint32_t pipe, uint32_t flag, const char* file, uint32_t line);
    void (*cross_wait)(uint32_t flag, uint32_t pipe, const char* file, uint32_t line);

    // Checked mode only.
    void (*check_access)(const NpkAccess* access);
    void (*check_issue)(uint32_t pipe); // a new instruction enters `pipe`; accesses that follow belong to it
    void (*check_set_flag)(uint32_t from, uint32_t to, uint32_t id, const char* file, uint32_t line);
    void (*check_wait_flag)(uint32_t from, uint32_t to, uint32_t id, const char* file, uint32_t line);
    void (*check_barrier)(uint32_t pipe);
    // After a write: bytes of the destination count as written where those of the source do.
    // `count` pieces of `bytes`, one behind the other in the destination, `from_stride` apart in the source.
    void (*check_copy)(uint32_t to_memory, uint64_t to, uint32_t from_memory, uint64_t from, uint64_t bytes,
                       uint64_t count, uint64_t from_stride);
    // After a write: these bytes hold nothing that may be read.
    void (*check_forget)(uint32_t memory, uint64_t address, uint64_t bytes);
    // A buffer of `bytes` at `address` comes to life or ends: contents count as never written.
    void (*check_allocate)(uint32_t memory, uint64_t address, uint64_t bytes);
    void (*check_release)(uint32_t memory, uint64_t address, uint64_t bytes);
} NpkHost;

typedef struct NpkKernelDesc {
    uint32_t abi_version;
    uint32_t struct_size;
    const char* name;
    uint32_t kernel_type; // NpkKernelType
    uint32_t checked;     // 1 when compiled with NPK_TWIN_CHECKED=1
    uint32_t num_args;
    uint32_t reserved;
    void (*entry)(void* const* args); // runs one core of one block
} NpkKernelDesc;

// The one symbol a kernel library exports.  Null when the host's ABI version is not the library's.
typedef const NpkKernelDesc* (*NpkKernelDescFn)(const NpkHost* host);
#define NPK_KERNEL_DESC_SYMBOL "npk_kernel_desc"

#ifdef __cplusplus
}
#endif

#endif
