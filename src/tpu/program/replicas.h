// Whether the replicas of a program have to do with one another. Thread-safety: pure.
#ifndef TORUS_TPU_PROGRAM_REPLICAS_H_
#define TORUS_TPU_PROGRAM_REPLICAS_H_

#include "tpu/program/hlo.h"

namespace torus::program {

// True where a replica waits for others (collectives, sends to another device) or asks which one it
// is. Otherwise each runs as well alone as with the rest.
bool NeedsOtherReplicas(const HloModule& module);

}  // namespace torus::program

#endif  // TORUS_TPU_PROGRAM_REPLICAS_H_
