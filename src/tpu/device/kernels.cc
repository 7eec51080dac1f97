// Handlers: they unpack a call's buffers and run the kernel on each matrix of the batch.
#include "tpu/device/kernels.h"

#include <algorithm>
#include <complex>

#include "base/mutex.h"
#include "tpu/device/collectives.h"
#include "tpu/device/host_callbacks.h"
#include "tpu/device/traced_runs.h"
#include "tpu/kernels/lu.h"
#include "tpu/pjrt/ffi.h"
#include "tpu/program/hlo.h"
#include "tpu/program/rewrite.h"

namespace ffi = torus::pjrt::ffi;

namespace torus::tpu {
namespace {

using program::ElementType;

// (a[..., m, n]) -> (lu[..., m, n], pivots[..., k], permutation[..., m])
template <typename T>
void RunLu(const ffi::Buffer& a, const ffi::Buffer& lu, const ffi::Buffer& pivots,
           const ffi::Buffer& permutation) {
  const auto dimensions = a.dimensions();
  const int64_t m = dimensions[dimensions.size() - 2], n = dimensions.back(), k = std::min(m, n);
  const int64_t size = m * n;
  int64_t count = 1;
  for (const int64_t batch : dimensions.first(dimensions.size() - 2)) count *= batch;
  if (lu.data != a.data)
    std::copy_n(static_cast<const T*>(a.data), count * size, static_cast<T*>(lu.data));
  for (int64_t i = 0; i < count; ++i) {
    kernels::LuDecompose<T>(
        {static_cast<T*>(lu.data) + i * size, m, n},
        {static_cast<int32_t*>(pivots.data) + i * k, static_cast<size_t>(k)},
        {static_cast<int32_t*>(permutation.data) + i * m, static_cast<size_t>(m)});
  }
}

Status Lu(ffi::CallFrame& call) {
  const ffi::Buffer& a = *call.arguments.buffers[0];
  ffi::Buffer** results = call.results.buffers;
  switch (static_cast<ElementType>(a.dtype)) {
    case ElementType::kF32:
      RunLu<float>(a, *results[0], *results[1], *results[2]);
      return Status();
    case ElementType::kF64:
      RunLu<double>(a, *results[0], *results[1], *results[2]);
      return Status();
    case ElementType::kC64:
      RunLu<std::complex<float>>(a, *results[0], *results[1], *results[2]);
      return Status();
    case ElementType::kC128:
      RunLu<std::complex<double>>(a, *results[0], *results[1], *results[2]);
      return Status();
    default:
      return Unimplemented(
          "LU decomposition of {} is not implemented; it is for f32, f64, c64 "
          "and c128.",
          program::NameOf(static_cast<ElementType>(a.dtype)));
  }
}

// JAX's dce_sink: its operand counts as used, which is all.
Status Sink(ffi::CallFrame&) { return Status(); }

Status RegisterWith(pjrt::Engine& engine) {
  TORUS_RETURN_IF_ERROR(RegisterHostCallbacks(engine));
  TORUS_RETURN_IF_ERROR(RegisterCollectives(engine));
  TORUS_RETURN_IF_ERROR(RegisterMarks(engine));
  TORUS_RETURN_IF_ERROR(ffi::Register(engine, "dce_sink", ffi::Handler<Sink>));
  return ffi::Register(engine, program::kLuTarget, ffi::Handler<Lu>);
}

}  // namespace

void RegisterKernels(pjrt::Engine& engine) {
  static Mutex& mutex = *new Mutex;
  static const PJRT_Api* known_to = nullptr;
  const MutexLock lock(mutex);
  if (engine.api() == known_to) return;
  known_to = engine.api();
  RegisterWith(engine).ok();
}

}  // namespace torus::tpu
