// Included before all else: TensorFlow's headers are C++17, and where they see C++23's
// to_underlying they name it as if it were a type (xla/util.h of 2.20).
#include <utility>
#include <version>
#undef __cpp_lib_to_underlying

// 2.19's stream_executor.h, for the type of one argument, includes a header that needs LLVM's,
// which are not in the wheel.
#if TORUS_TENSORFLOW_MINOR == 19
#define XLA_STREAM_EXECUTOR_GPU_TMA_METADATA_H_
namespace stream_executor::gpu {
class TmaDescriptor {};
}  // namespace stream_executor::gpu
#endif
