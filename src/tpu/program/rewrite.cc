// The list of passes.
#include "tpu/program/rewrite.h"

#include <string.h>

#include <algorithm>
#include <array>

namespace torus::program {
namespace {

struct Pass {
  // What the bytes of a program for this pass contain: names of operations and custom calls. None:
  // the engine refuses a program that needs it.
  std::array<std::string_view, 2> names;
  Result<bool> (*run)(HloModule&);
};

constexpr Pass kPasses[] = {
    {{"tpu_custom_call"}, RefuseMosaic},
    {{"send", "recv"}, RewriteHostTransfers},
    {{"AllocateBuffer"}, RewriteAllocateBuffer},
    {{"LuDecomposition"}, RewriteLu},
    {{"ResizeBilinear", "ResizeNearest"}, RewriteResize},
    {{"ragged_dot", "ragged-dot"}, RewriteRaggedDot},
    {{"ragged_all_to_all", "ragged-all-to-all"}, RewriteRaggedAllToAll},
    {{}, WidenInt4Dots},
    {{}, ConstrainUnreduced},
};

bool Contains(std::string_view code, std::string_view name) {
  return !name.empty() && memmem(code.data(), code.size(), name.data(), name.size()) != nullptr;
}

}  // namespace

bool MayNeedRewrite(std::string_view code) {
  return std::ranges::any_of(kPasses, [code](const Pass& pass) {
    return std::ranges::any_of(pass.names, [code](auto name) { return Contains(code, name); });
  });
}

Result<bool> Rewrite(HloModule& module) {
  bool changed = false;
  for (const Pass& pass : kPasses) {
    TORUS_ASSIGN_OR_RETURN(const bool by_this, pass.run(module));
    changed |= by_this;
  }
  return changed;
}

}  // namespace torus::program
