// Programs: compiled once by libtpu.so's PJRT API, launched once for all the devices they run on.
//
// TensorFlow enqueues a program device by device, from threads of which there may be fewer than
// devices, so nothing here waits: the last device to come launches it for all, and only once every
// value it reads is there. A program whose devices have nothing to do with one another is launched
// by each device for itself. Thread-safety: all.
#ifndef TORUS_TPU_TENSORFLOW_RUNTIME_PROGRAM_H_
#define TORUS_TPU_TENSORFLOW_RUNTIME_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "tpu/tensorflow/runtime/array.h"
#include "tpu/tensorflow/runtime/host_transfers.h"
#include "tpu/tensorflow/runtime/stream.h"
#include "tpu/tensorflow/runtime/tpu.h"
#include "tpu/tensorflow/runtime/transfer.h"

namespace torus::tensorflow {

struct ProgramSource {
  std::string hlo;  // a serialized xla.HloModuleProto
  int replicas = 1, partitions = 1;
  bool spmd = false;             // `partitions` come of one program by SPMD
  bool tuple_arguments = false;  // its one parameter is a tuple of the inputs
  // The device of each replica's partition, replica by replica; empty: from 0.
  std::vector<int> devices;
  // Of each device's arrays.
  std::vector<ArrayShape> inputs, outputs;
};

class Program : public std::enable_shared_from_this<Program> {
 public:
  // Errors: as PJRT_Client_Compile has them, such as RESOURCE_EXHAUSTED and UNIMPLEMENTED.
  static Result<std::shared_ptr<Program>> Compile(ProgramSource source);
  ~Program();

  const std::vector<ArrayShape>& inputs() const { return source_.inputs; }
  const std::vector<ArrayShape>& outputs() const { return source_.outputs; }

  // One device's part of a launch. An input's memory that is an output's too is given up to it.
  // Null memory is of no bytes, or another core's. The memory stays the caller's. INVALID_ARGUMENT:
  // a core that the program was not compiled for; FAILED_PRECONDITION: memory without a value, or
  // no host where the program has transfers. Errors of running, the host's first, are those of the
  // outputs' values, and of the stream where it ran.
  Status Enqueue(int device, Stream& stream, const std::vector<DeviceMemory*>& inputs,
                 const std::vector<DeviceMemory*>& outputs, std::shared_ptr<Host> host = nullptr);

  // Fails every launch of any program that still waits for a device, whose outputs get the status:
  // for when a device will not come any more.
  static void FailWaiting(const Status& status);

 private:
  struct Part;
  struct Launch;

  Program(const Tpu* tpu, ProgramSource source, PJRT_LoadedExecutable* executable)
      : tpu_(tpu), source_(std::move(source)), executable_(executable) {}
  Status FindPlaces();
  void Join(const std::shared_ptr<Launch>& launch);
  Result<std::shared_ptr<Array>> Input(int device, size_t index, DeviceMemory* memory) const;
  Result<std::vector<PJRT_Buffer*>> Gather(Launch& launch) const;
  void Run(const std::shared_ptr<Launch>& launch);
  Status Execute(Launch& launch);
  void Begun(Part& part, PJRT_Buffer** outputs, PJRT_Event* end);
  static void Fail(Launch& launch, const Status& status);

  const Tpu* const tpu_;
  const ProgramSource source_;
  PJRT_LoadedExecutable* const executable_;
  bool joint_ = false;  // its devices are launched together
  HostRun::Transfers transfers_;
  std::vector<int> places_;  // by device: its place among those of a launch, or -1

  Mutex mutex_;
  // For devices, the oldest first.
  std::vector<std::shared_ptr<Launch>> waiting_ TORUS_GUARDED_BY(mutex_);
};

}  // namespace torus::tensorflow

#endif  // TORUS_TPU_TENSORFLOW_RUNTIME_PROGRAM_H_
