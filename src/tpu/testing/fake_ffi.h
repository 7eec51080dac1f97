// The fake engine's half of XLA's FFI: handlers known by name, and how one is called.
//
// Thread-safety: all functions, from any thread.
#ifndef TORUS_TPU_TESTING_FAKE_FFI_H_
#define TORUS_TPU_TESTING_FAKE_FFI_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tpu/program/hlo.h"

namespace torus::tpu::fake {

// Data that a run was given, by type (PJRT_ExecuteContext).
using UserData = std::map<int64_t, void*>;

// An array in memory, or a token, which has no bytes.
struct Array {
  program::HloShape shape;
  std::shared_ptr<std::vector<char>> bytes;
};

// Keeps the handler. INVALID_ARGUMENT where it does not answer as a handler of this version.
Status RegisterHandler(std::string_view target, void* handler);
// The number of a type of that name, the same each time.
int64_t RegisterType(std::string_view name);

struct Call {
  std::string target;
  std::string attributes;  // "{channel = 3 : i64}"
  std::vector<Array> arguments, results;
  int device = 0;
  const UserData* user_data = nullptr;  // null: none
};
// Runs the handler to its end, which may come on another thread. NOT_FOUND where none has the name.
Status RunCall(const Call& call);

}  // namespace torus::tpu::fake

#endif  // TORUS_TPU_TESTING_FAKE_FFI_H_
