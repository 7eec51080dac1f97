// Results of dynamic size that a program gives more than once.
#ifndef TORUS_TPU_TENSORFLOW_ADAPTER_RESULTS_H_
#define TORUS_TPU_TENSORFLOW_ADAPTER_RESULTS_H_

#include <vector>

#include "xla/service/hlo.pb.h"

namespace torus::tensorflow {

// Takes from the module's results, a tuple, those of dynamic size that are another one again: the
// engine would copy such a value without its size. Returns, of each result as it was, its number
// among those that are left. Pure.
std::vector<int> JoinResults(xla::HloModuleProto* module);

}  // namespace torus::tensorflow

#endif  // TORUS_TPU_TENSORFLOW_ADAPTER_RESULTS_H_
