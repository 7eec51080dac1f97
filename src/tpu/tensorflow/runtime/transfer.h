// Between the host's memory and a device's. Thread-safety: all.
#ifndef TORUS_TPU_TENSORFLOW_RUNTIME_TRANSFER_H_
#define TORUS_TPU_TENSORFLOW_RUNTIME_TRANSFER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "tpu/pjrt/api.h"
#include "tpu/tensorflow/runtime/array.h"

namespace torus::tensorflow {

// An array on the host is dense and row-major.
struct ArrayShape {
  PJRT_Buffer_Type type = PJRT_Buffer_Type_INVALID;
  std::vector<int64_t> dimensions;

  bool operator==(const ArrayShape&) const = default;
  // False where a dimension is 0.
  bool HasElements() const;
};

// Copies `data` to the device. `done`: `data` is free again, or why not; called from any thread,
// not to block. RESOURCE_EXHAUSTED where the HBM has no room, and `done` is not called then.
Result<std::shared_ptr<Array>> ToDevice(int device, const ArrayShape& shape, const void* data,
                                        std::function<void(Status)> done);

// Zeros of the shape.
Result<std::shared_ptr<Array>> Zeros(int device, const ArrayShape& shape);

// Copies the array to `data`, of `size` bytes, once it is there; then `done`, as above.
void ToHost(std::shared_ptr<Array> array, void* data, size_t size,
            std::function<void(Status)> done);

// The dimensions of an array whose shape is known only when it has been computed. Blocks until
// then.
Result<std::vector<int64_t>> WaitForDimensions(std::shared_ptr<Array> array);

// The array on another device, where it will be once it is here; on its own it is the same array.
// Errors are the copy's.
std::shared_ptr<Array> CopyTo(int device, int from, std::shared_ptr<Array> array);

}  // namespace torus::tensorflow

#endif  // TORUS_TPU_TENSORFLOW_RUNTIME_TRANSFER_H_
