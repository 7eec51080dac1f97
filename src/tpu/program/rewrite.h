// Programs that the engine cannot run as they are, made into ones that it can.
//
// Each rewrite is a pass: one file of passes/, a function of the module. Most programs need none,
// so the bytes that a framework sends are first searched for the names that a pass is for; a
// program without them goes to the engine as it came, unread. A type has no name to search for in
// MLIR's bytecode: a program that the engine refuses is rewritten, too, and compiled once more.
// Thread-safety: all functions, from any thread.
#ifndef TORUS_TPU_PROGRAM_REWRITE_H_
#define TORUS_TPU_PROGRAM_REWRITE_H_

#include <string_view>

#include "base/status.h"
#include "tpu/program/hlo.h"

namespace torus::program {

// Whether the program's bytes, of any format, name an operation that a pass is for. It may be in
// vain (the name may be a variable's), never missed: names stand in clear in every form.
bool MayNeedRewrite(std::string_view code);

// Runs every pass. Whether one changed the module; the error of one that refuses it.
Result<bool> Rewrite(HloModule& module);

// The passes, each: whether it changed the module, or why this program cannot run.

// Sends to and receives from the host become calls of kSendTarget and kRecvTarget.
Result<bool> RewriteHostTransfers(HloModule& module);
// LU decompositions become calls of kLuTarget.
Result<bool> RewriteLu(HloModule& module);
// Resizing of images, and its gradient, becomes gathers and dots.
Result<bool> RewriteResize(HloModule& module);
// A ragged dot becomes a dot of operands that are masked by group.
Result<bool> RewriteRaggedDot(HloModule& module);
// A ragged all-to-all becomes all-to-alls of whole arrays and a gather.
Result<bool> RewriteRaggedAllToAll(HloModule& module);
// An array without values becomes one of zeros.
Result<bool> RewriteAllocateBuffer(HloModule& module);
// Operands of dots that have less than a byte are converted first.
Result<bool> WidenInt4Dots(HloModule& module);
// Constraints where values that are unreduced over a mesh's axes become whole.
Result<bool> ConstrainUnreduced(HloModule& module);
// UNIMPLEMENTED for a program with a kernel that is compiled for the real chip.
Result<bool> RefuseMosaic(HloModule& module);

// Custom-call targets that the device registers with the engine. Those of callbacks have the names
// of JAX's callbacks for GPUs, which no engine for CPUs has: Shardy keeps the sharding of a call
// with a side effect only if it knows its name as one of a callback.
inline constexpr char kSendTarget[] = "xla_ffi_python_gpu_callback";  // (data, token) -> token
inline constexpr char kRecvTarget[] = "xla_python_gpu_callback";      // token -> (data, token)
inline constexpr char kChannelAttribute[] = "channel";                // of both
inline constexpr char kLuTarget[] = "torus.lu";  // operand a[..., m, n], result (lu,
                                                 // pivots, permutation)

}  // namespace torus::program

#endif  // TORUS_TPU_PROGRAM_REWRITE_H_
