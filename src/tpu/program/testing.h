// Small hand-made modules, for tests of passes.
#ifndef TORUS_TPU_PROGRAM_TESTING_H_
#define TORUS_TPU_PROGRAM_TESTING_H_

#include <string>
#include <utility>
#include <vector>

#include "tpu/program/hlo.h"
#include "tpu/program/wire.h"

namespace torus::program {

// Builds an entry computation, instruction by instruction; the last is its root.
class ModuleBuilder {
 public:
  // The new instruction's id.
  int64_t Add(std::string opcode, HloShape shape, std::vector<int64_t> operands = {}) {
    const int64_t id = static_cast<int64_t>(entry_.instructions.size()) + 1;
    entry_.instructions.push_back({.id = id,
                                   .name = opcode + "." + std::to_string(id),
                                   .opcode = std::move(opcode),
                                   .shape = std::move(shape),
                                   .operands = std::move(operands)});
    entry_.root_id = id;
    return id;
  }
  HloInstruction& operator[](int64_t id) { return *entry_.Find(id); }
  protozero::pbf_writer Others(int64_t id) {
    return protozero::pbf_writer(entry_.Find(id)->others);
  }

  HloModule Build() const {
    HloModule module{.id = 1, .name = "m", .entry_computation_name = "e"};
    module.entry_computation_id = entry_.id;
    module.computations.push_back(entry_);
    return module;
  }

 private:
  HloComputation entry_{.id = 1, .name = "e"};
};

}  // namespace torus::program

#endif  // TORUS_TPU_PROGRAM_TESTING_H_
