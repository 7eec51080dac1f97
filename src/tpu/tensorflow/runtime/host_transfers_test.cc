#include "tpu/tensorflow/runtime/host_transfers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tpu/program/testing.h"
#include "tpu/tensorflow/runtime/program.h"
#include "tpu/tensorflow/runtime/testing.h"

namespace torus::tensorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// y = x, which the host gets as "to" and gives as "from"; then, if `joint`, the sum of all.
std::string Hlo(bool joint, bool named = true) {
  const auto data = program::ArrayShape(program::ElementType::kF32, {1});
  const auto started = program::TupleShape(
      {data, program::ArrayShape(program::ElementType::kU32, {}), program::TokenShape()});
  program::ModuleBuilder m;
  const int64_t x = m.Add("parameter", data);
  const int64_t token = m.Add("after-all", program::TokenShape());
  const int64_t send = m.Add("send", started, {x, token});
  const int64_t recv = m.Add("recv", started, {token});
  for (const int64_t transfer : {send, recv}) {
    m[transfer].channel_id = transfer;
    auto others = m.Others(transfer);
    others.add_bool(47, true);  // is_host_transfer
    if (!named) continue;
    std::string entry;
    protozero::pbf_writer writer(entry);
    writer.add_string(1, "_xla_host_transfer_rendezvous");
    writer.add_string(2, transfer == send ? "to" : "from");
    protozero::pbf_writer(others, 68).add_message(1, entry);  // frontend_attributes.map
  }
  m.Add(joint ? "all-reduce" : "negate", data, {x});
  return program::WriteHlo(m.Build());
}

// Gives what it took, and 1 more; or fails.
struct Echo : Host {
  Status Take(const HostTransfer& transfer, std::string_view data) override {
    EXPECT_EQ(transfer.name, "to");
    std::memcpy(&taken, data.data(), sizeof(taken));
    return failure;
  }
  void Give(const HostTransfer& transfer, std::function<void(Result<std::string>)> give) override {
    EXPECT_EQ(transfer.name, "from");
    if (!failure.ok()) return give(Error(failure));
    const float given = taken + 1;
    give(std::string(reinterpret_cast<const char*>(&given), size));
  }
  void Abort(const Status& status) override { aborted = status; }

  float taken = 0;
  size_t size = sizeof(float);
  Status failure, aborted;
};

TEST(HostTransfersOf, AreThoseWithAName) {
  const auto transfers = HostTransfersOf(*program::ReadHlo(Hlo(false)));
  ASSERT_TRUE(transfers);
  ASSERT_EQ(transfers->size(), 2u);
  EXPECT_TRUE((*transfers)[0].to_host);
  EXPECT_EQ((*transfers)[0].name, "to");
  EXPECT_EQ((*transfers)[1].name, "from");
  EXPECT_THAT((*transfers)[1].dimensions, ElementsAre(1));
  EXPECT_THAT(HostTransfersOf(*program::ReadHlo(Hlo(false, false))).error().message(),
              HasSubstr("no name"));
}

class HostRunTest : public TpuTest {
 protected:
  // What a run receives.
  std::vector<float> Receive(bool joint) {
    auto transfers = *HostTransfersOf(*program::ReadHlo(Hlo(joint)));
    run_ = std::make_shared<HostRun>(
        std::make_shared<const std::vector<HostTransfer>>(std::move(transfers)), host_, joint);
    EXPECT_EQ(run_->sends()[0].channel_id, 3);
    EXPECT_EQ(run_->recvs()[0].channel_id, 4);
    auto [stream, received] = fake_pjrt::NewReceive();
    run_->recvs()[0].recv_callback(stream, run_->recvs()[0].user_arg);
    return Soon(std::move(received));
  }

  std::shared_ptr<Echo> host_ = std::make_shared<Echo>();
  std::shared_ptr<HostRun> run_;
};

TEST_F(HostRunTest, GivesWhatTheHostGives) {
  EXPECT_THAT(Receive(false), ElementsAre(1));
  EXPECT_TRUE(run_->failure().ok());
}

TEST_F(HostRunTest, EndsWhereTheHostFails) {
  host_->failure = Status(Code::kAborted, "no");
  EXPECT_THAT(Receive(false), IsEmpty());
  EXPECT_EQ(run_->failure(), host_->failure);
}

TEST_F(HostRunTest, GoesOnWithZerosWhereOthersWaitForIt) {
  host_->failure = Status(Code::kAborted, "no");
  EXPECT_THAT(Receive(true), ElementsAre(0));
  EXPECT_EQ(run_->failure(), host_->failure);
}

TEST_F(HostRunTest, RefusesAnotherSize) {
  host_->size = 3;
  EXPECT_THAT(Receive(false), IsEmpty());
  EXPECT_THAT(run_->failure().message(), HasSubstr("3 bytes where 4 were expected"));
}

class ProgramWithHostTest : public TpuTest {
 protected:
  explicit ProgramWithHostTest(int replicas = 1) {
    program_ = *Program::Compile({.hlo = Hlo(replicas > 1),
                                  .replicas = replicas,
                                  .inputs = {kOneFloat},
                                  .outputs = {kOneFloat}});
    input_.Set(MakeArray(0, 41));
  }
  ~ProgramWithHostTest() override { fake_pjrt::Release(); }

  Status Enqueue(std::shared_ptr<Host> host) {
    return program_->Enqueue(0, *stream_, {&input_}, {&output_}, std::move(host));
  }

  std::shared_ptr<Program> program_;
  std::shared_ptr<Stream> stream_ = Stream::Make();
  std::shared_ptr<Echo> host_ = std::make_shared<Echo>();
  DeviceMemory input_{0, sizeof(float)}, output_{0, sizeof(float)};
};

TEST_F(ProgramWithHostTest, TalksToItWhileItRuns) {
  ASSERT_TRUE(Enqueue(host_).ok());
  EXPECT_EQ(Read(output_.array()), 42);
  EXPECT_EQ(host_->taken, 41);
  EXPECT_TRUE(stream_->Wait().ok());
  EXPECT_TRUE(host_->aborted.ok());
}

TEST_F(ProgramWithHostTest, HasResultsOnceItHasEnded) {
  fake_pjrt::Hold();
  ASSERT_TRUE(Enqueue(host_).ok());
  auto read = BeginRead(output_.array());
  EXPECT_FALSE(Has(read));
  fake_pjrt::Release();
  EXPECT_EQ(Soon(std::move(read)), 42);
}

TEST_F(ProgramWithHostTest, ItsResultsAreTheHostsFailure) {
  host_->failure = Status(Code::kAborted, "no");
  const int before = fake_pjrt::LiveBuffers();
  ASSERT_TRUE(Enqueue(host_).ok());
  EXPECT_EQ(Read(output_.array()).error(), host_->failure);
  EXPECT_EQ(host_->aborted, host_->failure);
  EXPECT_TRUE(stream_->Wait().ok());
  EXPECT_EQ(fake_pjrt::LiveBuffers(), before);
}

TEST_F(ProgramWithHostTest, TellsTheHostOfItsOwn) {
  fake_pjrt::FailNext(Status(Code::kInternal, "broken"));
  ASSERT_TRUE(Enqueue(host_).ok());
  EXPECT_EQ(stream_->Wait().message(), "broken");
  EXPECT_EQ(host_->aborted.message(), "broken");
  fake_pjrt::RefuseNext(Status(Code::kInternal, "refused"));
  ASSERT_TRUE(Enqueue(host_).ok());
  EXPECT_EQ(Read(output_.array()).error().message(), "refused");
  EXPECT_EQ(host_->aborted.message(), "refused");
}

TEST_F(ProgramWithHostTest, DoesNotRunWithoutOne) {
  EXPECT_EQ(Enqueue(nullptr).code(), Code::kFailedPrecondition);
}

}  // namespace
}  // namespace torus::tensorflow
