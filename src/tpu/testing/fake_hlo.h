// The fake engine's interpreter of HLO: the few operations that surround calls of Torus's own code.
//
// parameter, after-all, tuple, get-tuple-element, custom-call, add and all-reduce (both of f32), in
// the order in which the module has them. Thread-safety: all functions, from any thread.
#ifndef TORUS_TPU_TESTING_FAKE_HLO_H_
#define TORUS_TPU_TESTING_FAKE_HLO_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "tpu/program/hlo.h"
#include "tpu/testing/fake_ffi.h"

namespace torus::tpu::fake {

// Where the devices of one launch meet in their all-reduces.
class Meeting {
 public:
  explicit Meeting(size_t devices) : devices_(devices) {}

  // Adds up what each device brings to the all-reduce of that id; waits for all of them.
  std::vector<float> Sum(int64_t id, const std::vector<float>& mine);

 private:
  struct Total {
    std::vector<float> sum;
    size_t joined = 0;
  };
  const size_t devices_;
  Mutex mutex_;
  Condition changed_;
  std::map<int64_t, Total> totals_ TORUS_GUARDED_BY(mutex_);
};

// One device's part of a run.
struct Place {
  int device = 0;
  const UserData* user_data = nullptr;  // null: none
  std::shared_ptr<Meeting> meeting;
};

// The arrays that a value of the shape consists of, each with zeros of its size.
std::vector<Array> MakeArrays(const program::HloShape& shape);
// The shape of what the module returns.
const program::HloShape& ResultShape(const program::HloModule& module);

// What the module returns, tokens left out. UNIMPLEMENTED for an operation that is none of the few;
// the error of a call that fails.
Result<std::vector<Array>> Run(const program::HloModule& module, std::vector<Array> arguments,
                               const Place& place);

}  // namespace torus::tpu::fake

#endif  // TORUS_TPU_TESTING_FAKE_HLO_H_
