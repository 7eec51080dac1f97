// The session and its shards.
#include "tpu/device/trace.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "base/mutex.h"
#include "tpu/device/pointer_map.h"

namespace torus::tpu {

std::atomic<bool> trace_internal::is_on = false;

namespace {

constexpr size_t kMostMarks = size_t{1} << 23;  // some 200 MB
constexpr size_t kShards = 16;
constexpr int64_t kUnknownEnd = 0;

// Marks of some threads, each behind a lock that is rarely met.
struct alignas(64) Shard {
  SpinLock lock;
  std::vector<Trace::MarkTime> marks TORUS_GUARDED_BY(lock);
};

struct Session {
  Mutex mutex;
  int64_t number TORUS_GUARDED_BY(mutex) = 0;
  int64_t runs TORUS_GUARDED_BY(mutex) = 0;  // of all sessions
  Trace trace TORUS_GUARDED_BY(mutex);
  std::atomic<int64_t> current = 0;  // the session's number; 0: none is on
  std::atomic<size_t> marks = 0;
  std::array<Shard, kShards> shards;
};

Session& TheSession() {
  static Session& session = *new Session;
  return session;
}

Shard& ShardOfThread(Session& session) {
  static std::atomic<size_t> next = 0;
  thread_local const size_t own = next.fetch_add(1, std::memory_order_relaxed) % kShards;
  return session.shards[own];
}

}  // namespace

int64_t WallNanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Status StartTrace() {
  Session& session = TheSession();
  const MutexLock lock(session.mutex);
  if (session.current != 0) {
    return FailedPrecondition("The software TPU is being profiled already; stop that first.");
  }
  session.trace = {.begin = WallNanoseconds()};
  session.marks = 0;
  session.current = ++session.number;
  trace_internal::is_on = true;
  return Status();
}

Trace StopTrace() {
  Session& session = TheSession();
  const MutexLock lock(session.mutex);
  trace_internal::is_on = false;
  session.current = 0;
  Trace trace = std::exchange(session.trace, {});
  trace.end = WallNanoseconds();
  // What waits for a run may hear of its end before we do, and end the session.
  for (auto& run : trace.whole_runs) {
    if (run.end == kUnknownEnd) run.end = trace.end;
  }
  for (Shard& shard : session.shards) {
    const Guard guard(shard.lock);
    trace.marks.insert(trace.marks.end(), shard.marks.begin(), shard.marks.end());
    shard.marks = {};
  }
  if (session.marks > kMostMarks) {
    trace.warnings.push_back(fmt::format(
        "The trace has the first {} times of operations; trace fewer steps for all.", kMostMarks));
  }
  return trace;
}

std::shared_ptr<const TracedRun> BeginTracedRun(std::shared_ptr<const TracedProgram> program,
                                                int64_t context) {
  Session& session = TheSession();
  const MutexLock lock(session.mutex);
  if (session.current == 0) return nullptr;
  auto run = std::make_shared<const TracedRun>(
      TracedRun{std::move(program), session.current, ++session.runs, context});
  session.trace.runs.push_back(run);
  return run;
}

void RecordMark(const TracedRun& run, int device, int mark) {
  Session& session = TheSession();
  const int64_t now = WallNanoseconds();
  Shard& shard = ShardOfThread(session);
  const Guard guard(shard.lock);
  // Under the lock, so that none is added behind the session's end.
  if (session.current.load(std::memory_order_relaxed) != run.session) return;
  if (session.marks.fetch_add(1, std::memory_order_relaxed) >= kMostMarks) return;
  shard.marks.push_back({&run, now, device, mark});
}

size_t RecordBegin(const TracedRun& run, int device, int64_t begin) {
  Session& session = TheSession();
  const MutexLock lock(session.mutex);
  auto& runs = session.trace.whole_runs;
  if (session.current == run.session) runs.push_back({&run, begin, kUnknownEnd, device});
  return runs.size() - 1;
}

void RecordEnd(const TracedRun& run, size_t number, int64_t end) {
  Session& session = TheSession();
  const MutexLock lock(session.mutex);
  if (session.current == run.session) session.trace.whole_runs[number].end = end;
}

void RecordWarning(std::string warning) {
  Session& session = TheSession();
  const MutexLock lock(session.mutex);
  auto& warnings = session.trace.warnings;
  if (session.current != 0 && std::ranges::find(warnings, warning) == warnings.end()) {
    warnings.push_back(std::move(warning));
  }
}

}  // namespace torus::tpu
