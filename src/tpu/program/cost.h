// What a program costs, counted as XLA counts it: operations, memory traffic, and the least time.
//
// Rules are those of XLA's HloCostAnalysis, as its results show: an element-wise operation is one
// flop an element (or one transcendental), a multiply-add of a dot or a convolution two; a fusion
// moves its operands and its result; the body of a loop counts once. As libtpu has it, an argument
// that a matrix unit or a reduction reads first goes to the vector memory, if it fits there: three
// writes and a read more. Sizes are of one device, without the padding of tiles.
// Thread-safety: pure functions.
#ifndef TORUS_TPU_PROGRAM_COST_H_
#define TORUS_TPU_PROGRAM_COST_H_

#include <unordered_map>
#include <vector>

#include "tpu/program/hlo.h"

namespace torus::program {

// Rates of one device, per second.
struct Roofline {
  double flops = 0;
  double bytes = 0;
  int64_t vector_memory_bytes = 0;
};

struct Cost {
  double flops = 0;
  double transcendentals = 0;
  double bytes = 0;  // all of these
  double output_bytes = 0;
  std::vector<double> operand_bytes;  // of the instructions' first, second, ... operands
  double seconds = 0;                 // instructions one after the other, each at its bound

  void Add(const Cost& other);
};

Cost CostOf(const HloModule& module, const Roofline& roofline);
// Of each instruction whose value lies in memory, by its id.
std::unordered_map<int64_t, Cost> CostsOf(const HloModule& module, const Roofline& roofline);

}  // namespace torus::program

#endif  // TORUS_TPU_PROGRAM_COST_H_
