// The fake engine's programs of HLO: compiled, shown to the hook XlaTransform, run on a thread for
// each device, and the extensions that an engine of version 0.97 and newer has for all that.
//
// As on XLA's CPU engine, a run goes on after Execute has returned, and a program of several
// replicas may be brought to them one by one (execute_device, with a launch id). Thread-safety: all
// functions, from any thread.
#ifndef TORUS_TPU_TESTING_FAKE_RUNS_H_
#define TORUS_TPU_TESTING_FAKE_RUNS_H_

#include <memory>
#include <string>
#include <vector>

#include "tpu/testing/fake_objects.h"

namespace torus::tpu::fake {

inline constexpr int kOldestMinorWithFfi = 97;

// FFI and XlaTransform.
PJRT_Extension_Base* Extensions();

PJRT_Error* CompileHlo(PJRT_Client_Compile_Args* args);
PJRT_Error* RunHlo(PJRT_LoadedExecutable_Execute_Args* args);
void AwaitAll(Runs& runs);

std::string SerializeHlo(const PJRT_Executable& executable);
bool IsSerializedHlo(const PJRT_Executable_DeserializeAndLoad_Args& args);
PJRT_Error* LoadHlo(PJRT_Executable_DeserializeAndLoad_Args* args);

// A serialized xla.HloModuleProtoWithConfig of the module.
std::string WithConfig(const std::string& module);
// The shapes of the buffers that a run makes.
std::vector<program::HloShape> OutputShapes(const PJRT_Executable& executable);
// f32 of the host's.
std::shared_ptr<Contents> Floats(const void* data, std::vector<int64_t> dimensions);

}  // namespace torus::tpu::fake

#endif  // TORUS_TPU_TESTING_FAKE_RUNS_H_
