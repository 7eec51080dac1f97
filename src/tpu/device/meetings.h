// Where the devices of a slice meet in their collectives, whatever program or thread each is in.
//
// A device brings its part of a collective and goes on when it has its results. Parts belong
// together by the launch (the nth program with collectives that a device runs), by the collective's
// place in the program and, in a loop, by the round: as on chips, where collectives meet in their
// order. The programs themselves may differ. Nobody's thread waits.
//
// Between the processes of a slice, parts travel to process 0 (peers.h), where all meet.
// Thread-safety: all methods, from any thread.
#ifndef TORUS_TPU_DEVICE_MEETINGS_H_
#define TORUS_TPU_DEVICE_MEETINGS_H_

#include <chrono>
#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "tpu/kernels/collectives.h"

namespace torus::tpu {

struct MeetingKey {
  int64_t launch = 0, place = 0, round = 0;

  auto operator<=>(const MeetingKey&) const = default;
};

// What one device brings. Its memory is its owner's, and stays until `done`.
struct Part {
  MeetingKey key;
  program::Collective collective;
  kernels::Member member;
  // Called once, on any thread, when the results are there or will not be.
  std::function<void(const Status&)> done;
  // It is another process's, and is told first: what this one is told may be the last before it
  // ends.
  bool from_afar = false;
};

class MeetingPlace {
 public:
  virtual ~MeetingPlace() = default;
  // The part's `done` tells how it went. INVALID_ARGUMENT: the group's members bring different
  // collectives. DEADLINE_EXCEEDED, UNAVAILABLE: one did not come, or its process has ended.
  virtual void Join(Part part) = 0;
};

// The place where they meet in this process. Must be held by a std::shared_ptr.
class Meetings : public MeetingPlace, public std::enable_shared_from_this<Meetings> {
 public:
  using Seconds = std::chrono::seconds;
  struct Patience {
    Seconds warning{20};     // then stderr says who waits for whom
    Seconds limit{30 * 60};  // then the meeting fails: torch.distributed's

    // With the limit of TORUS_COLLECTIVE_TIMEOUT, in seconds, where that is set.
    static Patience FromEnvironment();
  };

  // Of the devices from 0 to `devices` - 1.
  explicit Meetings(int64_t devices, Patience patience = Patience::FromEnvironment())
      : devices_(devices), patience_(patience) {}

  void Join(Part part) override;
  // Devices that will not come any more: meetings with them fail with the error, now and later.
  void Lose(const std::vector<int64_t>& devices, const Status& error);

 private:
  using Clock = std::chrono::steady_clock;
  using Place = std::pair<MeetingKey, int64_t>;  // and the group's first device: groups meet apart
  struct Meeting {
    std::vector<int64_t> group;  // in its order
    std::vector<Part> parts;     // that have come, in any
    Clock::time_point began = Clock::now();
    bool warned = false;
  };

  Result<std::vector<int64_t>> GroupOf(const Part& part) const;
  Status LostOf(const std::vector<int64_t>& group) const TORUS_REQUIRES(mutex_);
  static Status Check(const Meeting& meeting, const Part& part);
  static void Hold(Meeting meeting);
  // Looks now and then at those that wait, for as long as there are any.
  void Watch();
  std::vector<Meeting> TakeOverdue() TORUS_REQUIRES(mutex_);
  Status Overdue(const Meeting& meeting) const;

  const int64_t devices_;
  const Patience patience_;
  mutable Mutex mutex_;
  std::map<Place, Meeting> meetings_ TORUS_GUARDED_BY(mutex_);
  std::map<int64_t, Status> lost_ TORUS_GUARDED_BY(mutex_);  // by device
  bool watched_ TORUS_GUARDED_BY(mutex_) = false;
};

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_MEETINGS_H_
