// What a compiled program depends on beside the program and its options: which builds compiled it,
// in which environment, for which CPU.
//
// Each is a short text that differs where the program may differ, or must not run. Thread-safety:
// all functions, from any thread.
#ifndef TORUS_TPU_DEVICE_COMPILER_IDENTITY_H_
#define TORUS_TPU_DEVICE_COMPILER_IDENTITY_H_

#include <string>

namespace torus::tpu {

// The linker's build id of the library or program that this code is in; empty where it has none.
std::string OwnBuildId();

// Of a file that has no build id: its size and when it was last changed; empty where there is none.
std::string FileIdentity(const std::string& path);

// The variables of the environment that the engine's compiler reads, as they are now.
std::string CompilerEnvironment();

// The CPU's model and features, and how many CPUs this process may use.
std::string CpuIdentity();

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_COMPILER_IDENTITY_H_
