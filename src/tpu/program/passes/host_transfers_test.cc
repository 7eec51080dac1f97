#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tpu/program/hlo_attributes.h"
#include "tpu/program/rewrite.h"
#include "tpu/program/testing.h"

namespace torus::program {
namespace {

using ::testing::ElementsAre;

constexpr protozero::pbf_tag_type kSharding = 40, kIsHostTransfer = 47;

HloShape Data() { return ArrayShape(ElementType::kF32, {2}); }
HloShape Started() { return TupleShape({Data(), ArrayShape(ElementType::kU32, {}), TokenShape()}); }

// token = send(x); (y, token) = recv(token), each with its done; y is the result.
ModuleBuilder RoundTrip(bool of_host) {
  ModuleBuilder m;
  const int64_t x = m.Add("parameter", Data());
  const int64_t token = m.Add("after-all", TokenShape());
  const int64_t send = m.Add("send", Started(), {x, token});
  const int64_t sent = m.Add("send-done", TokenShape(), {send});
  const int64_t recv = m.Add("recv", Started(), {sent});
  const int64_t received = m.Add("recv-done", TupleShape({Data(), TokenShape()}), {recv});
  m.Add("get-tuple-element", Data(), {received});
  for (const int64_t transfer : {send, sent, recv, received}) {
    m[transfer].channel_id = transfer <= sent ? 2 : 3;
    m.Others(transfer).add_bool(kIsHostTransfer, of_host);
    m.Others(transfer).add_string(kSharding, m[transfer].name);
  }
  return m;
}

TEST(RewriteHostTransfers, MakesEachPairOneCall) {
  HloModule module = RoundTrip(true).Build();
  ASSERT_TRUE(*RewriteHostTransfers(module));
  ASSERT_TRUE(ReadHlo(WriteHlo(module)));  // nothing dangles
  const auto& entry = *module.entry();
  ASSERT_EQ(entry.instructions.size(), 5u);
  const auto& send = entry.instructions[2];
  EXPECT_EQ(send.opcode, "custom-call");
  EXPECT_EQ(send.custom_call_target, kSendTarget);
  EXPECT_EQ(send.backend_config, "{channel = 2 : i64}");
  EXPECT_EQ(send.shape.ToString(), "token[]");
  EXPECT_EQ(ShardingOf(send), "send-done.4");
  EXPECT_FALSE(IsHostTransfer(send));
  const auto& recv = entry.instructions[3];
  EXPECT_EQ(recv.custom_call_target, kRecvTarget);
  EXPECT_EQ(recv.backend_config, "{channel = 3 : i64}");
  EXPECT_EQ(recv.shape.ToString(), "(f32[2]{0}, token[])");
  EXPECT_EQ(ShardingOf(recv), "recv-done.6");
  EXPECT_THAT(recv.operands, ElementsAre(send.id));
  EXPECT_THAT(entry.instructions[4].operands, ElementsAre(recv.id));
}

TEST(RewriteHostTransfers, LetsACallBeTheRoot) {
  auto builder = RoundTrip(true);
  HloModule module = builder.Build();
  module.computations[0].instructions.pop_back();
  module.computations[0].root_id = module.computations[0].instructions.back().id;
  ASSERT_TRUE(*RewriteHostTransfers(module));
  EXPECT_TRUE(ReadHlo(WriteHlo(module)));
}

TEST(RewriteHostTransfers, RefusesADoneOfSomethingElse) {
  auto builder = RoundTrip(true);
  builder[4].operands = {2};
  HloModule module = builder.Build();
  EXPECT_EQ(RewriteHostTransfers(module).error().code(), Code::kInvalidArgument);
}

TEST(RewriteHostTransfers, LeavesTransfersBetweenDevices) {
  HloModule module = RoundTrip(false).Build();
  const auto before = WriteHlo(module);
  EXPECT_FALSE(*RewriteHostTransfers(module));
  EXPECT_EQ(WriteHlo(module), before);
}

}  // namespace
}  // namespace torus::program
