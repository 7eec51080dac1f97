#include "tpu/verify/message.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

namespace torus::tpu::verify {
namespace {

TEST(MessageTest, RequestsAndEstimatesComeBackAsTheyWere) {
  const Request request{
      .name = "jit_f",
      .code = std::string("a\0b", 3),
      .format = "mlir",
      .options = "o",
      .memory_limit = int64_t{1} << 34,
      .ours = {.error = "", .memory = 5, .flops = 1.5, .bytes = 2, .seconds = -1}};
  const Request read = ReadRequest(Write(request));
  EXPECT_EQ(read.name, "jit_f");
  EXPECT_EQ(read.code, request.code);
  EXPECT_EQ(read.format, "mlir");
  EXPECT_EQ(read.options, "o");
  EXPECT_EQ(read.memory_limit, int64_t{1} << 34);
  EXPECT_EQ(read.ours.memory, 5);
  EXPECT_EQ(read.ours.flops, 1.5);
  EXPECT_EQ(read.ours.bytes, 2);
  EXPECT_EQ(read.ours.seconds, -1);
  EXPECT_EQ(ReadEstimate(Write(Estimate{.error = "no"})).error, "no");
}

TEST(MessageTest, FramesOfAnySizePassASocketUntilItsEnd) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const std::string large(10'000'000, 'x');
  std::thread sender([&] {
    EXPECT_TRUE(Send(ends[0], ""));
    EXPECT_TRUE(Send(ends[0], large));
    close(ends[0]);
  });
  EXPECT_EQ(Receive(ends[1]), "");
  EXPECT_EQ(Receive(ends[1]), large);
  EXPECT_EQ(Receive(ends[1]), std::nullopt);
  sender.join();
  close(ends[1]);
}

TEST(MessageTest, AReceiverThatIsGoneEndsNobody) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  close(ends[1]);
  EXPECT_FALSE(Send(ends[0], "frame"));
  close(ends[0]);
}

}  // namespace
}  // namespace torus::tpu::verify
