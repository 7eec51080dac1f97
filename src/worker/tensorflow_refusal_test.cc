#include "worker/tensorflow_refusal.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "base/subprocess.h"
#include "worker/grpc_listener.h"
#include "worker/network.h"

namespace torus::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint16_t kPort = 8470;

VmSpec Spec() {
  VmSpec vm;
  vm.set_node_id("my-tpu");
  vm.set_zone("us-central1-a");
  vm.set_accelerator_type("v2-8");
  vm.set_runtime_version("tpu-ubuntu2204-base");
  return vm;
}

// A VM's network: a namespace with nothing but loopback and a VM's rules, and a process in it.
class Refusal : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "making a network namespace needs root";
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (unshare(CLONE_NEWNET) != 0) _exit(1);
      pause();
      _exit(0);
    }
    ASSERT_TRUE(Eventually([&] { return Namespace(pid_) != Namespace(getpid()); }));
    ASSERT_TRUE(InNetworkOf(pid_, []() -> Status {
                  const Fd fd(socket(AF_INET, SOCK_DGRAM, 0));
                  ifreq lo{.ifr_ifrn = {"lo"}, .ifr_ifru = {.ifru_flags = IFF_UP}};
                  if (ioctl(fd.get(), SIOCSIFFLAGS, &lo) != 0) return Internal("no lo");
                  const auto ran = RunChecked({"nft", "-f", "-"}, {.input = VmRules()});
                  return ran ? Status() : ran.error();
                }).ok());
  }
  void TearDown() override {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  static bool Eventually(const std::function<bool()>& holds) {
    for (int i = 0; i < 500; ++i) {
      if (holds()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  static std::string Namespace(pid_t pid) {
    char link[64] = {};
    (void)!readlink(fmt::format("/proc/{}/ns/net", pid).c_str(), link, sizeof(link) - 1);
    return link;
  }

  // A connection to the port, made in the namespace; none: refused.
  Fd Connect() const {
    Fd connection;
    InNetworkOf(pid_, [&]() -> Status {
      sockaddr_in where{};
      where.sin_family = AF_INET;
      where.sin_port = htons(kPort);
      inet_pton(AF_INET, "127.0.0.1", &where.sin_addr);
      Fd made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (connect(made.get(), reinterpret_cast<sockaddr*>(&where), sizeof(where)) == 0)
        connection = std::move(made);
      return {};
    }).ok();
    return connection;
  }
  // How the port answers a call that TensorFlow's clients begin with.
  grpc::Status Call() const {
    Fd connection = Connect();
    if (!connection) return {grpc::StatusCode::UNAVAILABLE, "closed"};
    grpc::GenericStub stub(grpc::CreateInsecureChannelFromFd("vm", connection.Release()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    const grpc::Slice empty("");
    grpc::ByteBuffer request(&empty, 1), response;
    std::promise<grpc::Status> ended;
    stub.UnaryCall(&context, "/tensorflow.WorkerService/GetStatus", {}, &request, &response,
                   [&](grpc::Status status) { ended.set_value(std::move(status)); });
    return ended.get_future().get();
  }
  // Whether a connection reaches this listener of a program in the VM.
  bool Reaches(const Fd& listener) const {
    const Fd connection = Connect();
    return connection && Eventually([&] {
             return Fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)).get() >= 0;
           });
  }

  pid_t pid_ = 0;
};

TEST_F(Refusal, SaysWhatToDo) {
  TensorFlowRefusal refusal;
  EXPECT_EQ(Call().error_message(), "closed");
  ASSERT_TRUE(refusal.Keep(Spec(), pid_).ok());
  ASSERT_TRUE(refusal.Keep(Spec(), pid_).ok());
  const grpc::Status status = Call();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("\"my-tpu\""), HasSubstr("tpu-ubuntu2204-base"),
                    HasSubstr("--zone=us-central1-a --accelerator-type=v2-8 --version=")));
}

TEST_F(Refusal, AProgramThatListensHasThePort) {
  TensorFlowRefusal refusal;
  ASSERT_TRUE(refusal.Keep(Spec(), pid_).ok());
  {
    const auto program = ListenInNetworkOf(pid_, "0.0.0.0", kPort);
    ASSERT_TRUE(program) << program.error().message();
    char byte = 0;
    EXPECT_EQ(read(Connect().get(), &byte, 1), 0) << "the connection that found out is closed";
    EXPECT_TRUE(Reaches(*program));
    ASSERT_TRUE(refusal.Keep(Spec(), pid_).ok());
    EXPECT_TRUE(Reaches(*program));
  }
  EXPECT_EQ(Call().error_message(), "closed");
  ASSERT_TRUE(refusal.Keep(Spec(), pid_).ok());
  EXPECT_EQ(Call().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(Refusal, AProgramThatCameAndWentBetweenTwoLooks) {
  TensorFlowRefusal refusal;
  ASSERT_TRUE(refusal.Keep(Spec(), pid_).ok());
  {
    const auto program = ListenInNetworkOf(pid_, "0.0.0.0", kPort);
    ASSERT_TRUE(program) << program.error().message();
    char byte = 0;
    EXPECT_EQ(read(Connect().get(), &byte, 1), 0) << "the connection that found out is closed";
    EXPECT_TRUE(Reaches(*program));
  }
  EXPECT_EQ(Call().error_message(), "closed");
  ASSERT_TRUE(refusal.Keep(Spec(), pid_).ok());
  EXPECT_EQ(Call().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(Refusal, RulesOfAWorkerThatDiedGoToo) {
  TensorFlowRefusal refusal;
  ASSERT_TRUE(LeadPort(pid_, kPort, 1).ok());
  const auto program = ListenInNetworkOf(pid_, "0.0.0.0", kPort);
  ASSERT_TRUE(program) << program.error().message();
  EXPECT_FALSE(Reaches(*program));
  ASSERT_TRUE(refusal.Keep(Spec(), pid_).ok());
  EXPECT_TRUE(Reaches(*program));
}

}  // namespace
}  // namespace torus::worker
