// Shapes between TensorFlow's C structs, XLA's C++ and what the runtime wants. Pure.
#ifndef TORUS_TPU_TENSORFLOW_ADAPTER_SHAPES_H_
#define TORUS_TPU_TENSORFLOW_ADAPTER_SHAPES_H_

#include <vector>

#include "base/status.h"
#include "tpu/tensorflow/runtime/transfer.h"
#include "xla/shape.h"
#include "xla/stream_executor/tpu/c_api_decl.h"

namespace torus::tensorflow {

xla::Shape FromC(const XLA_Shape& shape);

// The shape on a device: each array row-major, as the engine has it. A TPU's tiles and padding are
// accounted for where memory is (device/tiling.h), and no one on this side sees them.
xla::Shape OnDevice(xla::Shape shape);

// What TensorFlow should allocate, in bytes: an array dense, a tuple's table a pointer an element.
int64_t ByteSize(const xla::Shape& shape);

// UNIMPLEMENTED for a tuple, a token or an element type that PJRT lacks.
Result<ArrayShape> ToArrayShape(const xla::Shape& shape);

// The arrays of a tuple without tuples in it, or the one array.
Result<std::vector<ArrayShape>> ToArrayShapes(const xla::Shape& shape);

}  // namespace torus::tensorflow

#endif  // TORUS_TPU_TENSORFLOW_ADAPTER_SHAPES_H_
