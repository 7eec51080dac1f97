// The counters' pages (slice/counters.h) of a VM's processes, read from outside.
//
// All of it is the VM's to write, so nothing of it is trusted: no link is followed, nothing outside
// the VM's root is reached, only plain files are read, and few and small ones. Thread-safe.
#ifndef TORUS_WORKER_VM_COUNTERS_H_
#define TORUS_WORKER_VM_COUNTERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "slice/counters.h"

namespace torus::worker {

// The pages of the living processes below `root`, a VM's root folder (/proc/<pid>/root), as of
// `now` (slice::CountersNow). What cannot be read is left out.
std::vector<slice::PageReading> ReadVmCounters(const std::string& root, int64_t now);

}  // namespace torus::worker

#endif  // TORUS_WORKER_VM_COUNTERS_H_
