// The processes of one slice on one host, joined by Unix sockets in the shape of a star: process 0
// holds the meetings, the others send it their parts and get their results.
//
// The socket has no file: its name is the user's id and the address that the framework gave process
// 0 (TPU_PROCESS_ADDRESSES), in the kernel's abstract names. Both ends check that the other is the
// same user's. What goes over it is serialized by one build and read by the same, which the
// greeting makes sure of.
#ifndef TORUS_TPU_DEVICE_PEERS_H_
#define TORUS_TPU_DEVICE_PEERS_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "tpu/device/meetings.h"

namespace torus::tpu {

struct PeerOptions {
  std::string address;                        // of process 0, "localhost:8476"; equal in all
  std::string build;                          // of Torus, and the slice: equal in all
  int own = 0;                                // this process
  std::vector<std::vector<int64_t>> devices;  // each process's
  std::chrono::seconds patience{300};         // for the others to come
};

// Waits for the slice's other processes; where their devices meet then. DEADLINE_EXCEEDED names
// those that did not come; ALREADY_EXISTS: another slice has the address; INVALID_ARGUMENT: the
// processes are of different slices or builds. Thread-safe.
Result<std::shared_ptr<MeetingPlace>> JoinPeers(const PeerOptions& options);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_PEERS_H_
