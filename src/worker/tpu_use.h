// What one process does with its TPU, over a while, as facts for the doctor.
//
// Pure. Thread-safety: values.
#ifndef TORUS_WORKER_TPU_USE_H_
#define TORUS_WORKER_TPU_USE_H_

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "slice/counters.h"
#include "worker/vm_processes.h"

namespace torus::worker {

// Of a process at one time, all of its pages together. Times are nanoseconds.
struct TpuUse {
  int64_t at = 0;  // slice::CountersNow
  int64_t devices = 0;
  int64_t compiles = 0, runs = 0;
  int64_t busy = 0;     // summed over devices
  int64_t running = 0;  // programs
  int64_t idle = 0;     // since any program last ran
};

TpuUse UseOf(std::span<const slice::PageReading> pages, int64_t pid, int64_t at);

// The looks of the last minute, oldest first.
using UseHistory = std::deque<TpuUse>;
void AddLook(const TpuUse& use, UseHistory& history);

// Facts of a process, for src/doctor/knowledge.toml:
//   running PID SECONDS FRAMEWORK HOW COMMAND     as src/cli/doctor_facts.py says it
//   holds PID SECONDS COMMAND                     it has chips, and has run nothing for SECONDS
//   compiling PID N SECONDS COMMAND               it has compiled N programs in the last SECONDS
//   duty PID PERCENT SECONDS COMMAND              of the last SECONDS its cores computed so much
// The last two of a process that is past its first two minutes, in which all compile and load.
std::vector<std::string> FactsOf(const VmProcess& process, const UseHistory& history);

}  // namespace torus::worker

#endif  // TORUS_WORKER_TPU_USE_H_
