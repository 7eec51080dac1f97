// What a profiler's session records: runs of programs, and the times of their marks on each device.
//
// There is at most one session at a time. Outside of one nothing is recorded, and a run pays one
// load of an atomic. Times are nanoseconds of the host's wall clock, as JAX's own profiler has
// them. Thread-safety: all functions, from any thread; records of different threads meet in few
// locks.
#ifndef TORUS_TPU_DEVICE_TRACE_H_
#define TORUS_TPU_DEVICE_TRACE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "hardware/catalogue.h"
#include "tpu/program/marks.h"

namespace torus::tpu {

// What is said of a program. Immutable.
struct TracedProgram {
  struct Operation {
    std::string name;       // "fusion.3"
    std::string text;       // of HLO
    std::string category;   // XLA's
    std::string framework;  // the framework's name of it, "jit(step)/dot_general"
    std::string source;     // "train.py:12"
    int64_t flops = 0, bytes_read = 0, bytes_written = 0;
  };

  std::string name;                                  // "jit_step"
  int64_t id = 0;                                    // the same for the same program
  const hardware::Generation* generation = nullptr;  // the catalogue's
  std::string hlo;  // serialized xla.HloModuleProto, optimized; empty: the engine does not give it
  std::vector<Operation> operations;  // as program::Marks numbers them; empty: it has no marks
  std::vector<program::Mark> marks;
};

// One run of a program, on any number of devices.
struct TracedRun {
  std::shared_ptr<const TracedProgram> program;
  int64_t session = 0;
  int64_t number = 0;    // counted from 1, in the order of the calls
  int64_t context = -1;  // the framework's id of the call (PJRT_Profiler_Extension); -1: none
};

struct Trace {
  struct MarkTime {
    const TracedRun* run = nullptr;  // of `runs`
    int64_t nanoseconds = 0;
    int device = 0;
    int mark = 0;
  };
  struct WholeRun {
    const TracedRun* run = nullptr;
    int64_t begin = 0, end = 0;  // nanoseconds
    int device = 0;
  };

  int64_t begin = 0, end = 0;  // nanoseconds
  std::vector<std::shared_ptr<const TracedRun>> runs;
  std::vector<MarkTime> marks;
  std::vector<WholeRun> whole_runs;   // of programs without marks
  std::vector<std::string> warnings;  // what is missing, and why
};

// Nanoseconds since 1970.
int64_t WallNanoseconds();

namespace trace_internal {
extern std::atomic<bool> is_on;
}
inline bool IsTracing() { return trace_internal::is_on.load(std::memory_order_relaxed); }

// Begins a session. FAILED_PRECONDITION where there is one.
Status StartTrace();
// Ends it and returns what it recorded; a run that has not ended counts as far as it got.
Trace StopTrace();

// Notes that the program is about to run. Null where no session is on.
std::shared_ptr<const TracedRun> BeginTracedRun(std::shared_ptr<const TracedProgram> program,
                                                int64_t context);
// What a run of an earlier session records is dropped.
void RecordMark(const TracedRun& run, int device, int mark);
// The number by which its end is told; a run whose end is told after the session's ends with it.
size_t RecordBegin(const TracedRun& run, int device, int64_t begin);
void RecordEnd(const TracedRun& run, size_t number, int64_t end);
// Kept once.
void RecordWarning(std::string warning);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_TRACE_H_
