#include "tpu/program/replicas.h"

#include <gtest/gtest.h>

#include "tpu/program/testing.h"

namespace torus::program {
namespace {

HloModule Of(const char* opcode, bool of_host = false) {
  ModuleBuilder m;
  const int64_t x = m.Add("parameter", ArrayShape(ElementType::kF32, {2}));
  const int64_t operation = m.Add(opcode, TokenShape(), {x});
  if (of_host) m.Others(operation).add_bool(47, true);  // is_host_transfer
  return m.Build();
}

TEST(NeedsOtherReplicas, SaysWhoWaitsForOthers) {
  for (const char* opcode : {"all-reduce", "all-gather-start", "replica-id", "send", "recv-done"})
    EXPECT_TRUE(NeedsOtherReplicas(Of(opcode))) << opcode;
  EXPECT_FALSE(NeedsOtherReplicas(Of("add")));
}

TEST(NeedsOtherReplicas, TheHostIsNoReplica) {
  for (const char* opcode : {"send", "send-done", "recv", "recv-done"})
    EXPECT_FALSE(NeedsOtherReplicas(Of(opcode, /*of_host=*/true))) << opcode;
}

}  // namespace
}  // namespace torus::program
