// Loads a service with one kind of gRPC call, as wrk does with HTTP.
//
//   bench_grpc_load PORT get|list|create|delete CONNECTIONS SECONDS COUNT
//
// Each connection has one call under way. `get` reads the nodes n0 … n<COUNT-1> in turn, `list` the
// first page of COUNT nodes; `create` makes x<COUNT>, x<COUNT+1> … and `delete` removes them in
// that order. Prints one line of JSON: requests answered, seconds, errors, p50 and p99 in
// milliseconds.
#include <fmt/format.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <vector>

#include "google/cloud/tpu/v2/cloud_tpu.pb.h"

namespace torus {
namespace {

namespace v2 = google::cloud::tpu::v2;
using Clock = std::chrono::steady_clock;
using google::protobuf::Message;

constexpr char kParent[] = "projects/torus-bench/locations/us-central1-a";

struct Work {
  std::string method;
  int count;
  int next = 0;

  grpc::ByteBuffer NextRequest() {
    const auto name = [&](char kind, int number) {
      return fmt::format("{}/nodes/{}{}", kParent, kind, number);
    };
    const int i = next++;
    if (method == "GetNode") {
      v2::GetNodeRequest request;
      request.set_name(name('n', i % count));
      return Bytes(request);
    }
    if (method == "ListNodes") {
      v2::ListNodesRequest request;
      request.set_parent(kParent);
      request.set_page_size(count);
      return Bytes(request);
    }
    if (method == "DeleteNode") {
      v2::DeleteNodeRequest request;
      request.set_name(name('x', count + i));
      return Bytes(request);
    }
    v2::CreateNodeRequest request;
    request.set_parent(kParent);
    request.set_node_id(fmt::format("x{}", count + i));
    request.mutable_node()->set_accelerator_type("v2-8");
    request.mutable_node()->set_runtime_version("tpu-ubuntu2204-base");
    return Bytes(request);
  }

  static grpc::ByteBuffer Bytes(const Message& message) {
    grpc::ByteBuffer buffer;
    bool own_buffer = false;
    const grpc::Status ignored =
        grpc::SerializationTraits<Message>::Serialize(message, &buffer, &own_buffer);
    return buffer;
  }
};

// A connection of its own, with one call under way at a time.
class Lane {
 public:
  Lane(const std::string& address, Work* work, grpc::CompletionQueue* queue)
      : work_(*work), queue_(*queue), stub_(Connect(address)) {}

  void Start() {
    context_ = std::make_unique<grpc::ClientContext>();
    begun_ = Clock::now();
    call_ = stub_.PrepareUnaryCall(context_.get(), "/google.cloud.tpu.v2.Tpu/" + work_.method,
                                   work_.NextRequest(), &queue_);
    call_->StartCall();
    call_->Finish(&answer_, &status_, this);
  }

  const grpc::Status& status() const { return status_; }
  Clock::time_point begun() const { return begun_; }

 private:
  static std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  }

  Work& work_;
  grpc::CompletionQueue& queue_;
  grpc::GenericStub stub_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> call_;
  grpc::ByteBuffer answer_;
  grpc::Status status_;
  Clock::time_point begun_;
};

int Run(const std::string& port, Work work, int connections, double seconds) {
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<Lane>> lanes;
  for (int i = 0; i < connections; ++i) {
    lanes.push_back(std::make_unique<Lane>("127.0.0.1:" + port, &work, &queue));
    lanes.back()->Start();
  }
  const auto begun = Clock::now();
  const auto end = begun + std::chrono::duration<double>(seconds);
  std::vector<double> took;  // ms
  int errors = 0;
  void* tag = nullptr;
  bool ok = false;
  for (size_t open = lanes.size(); open > 0 && queue.Next(&tag, &ok);) {
    auto* lane = static_cast<Lane*>(tag);
    const auto now = Clock::now();
    took.push_back(std::chrono::duration<double, std::milli>(now - lane->begun()).count());
    if (!lane->status().ok() && errors++ == 0)
      fmt::print(stderr, "{}: {}\n", work.method, lane->status().error_message());
    now < end ? lane->Start() : static_cast<void>(--open);
  }
  const double lasted = std::chrono::duration<double>(Clock::now() - begun).count();
  std::ranges::sort(took);
  fmt::print(R"({{"requests": {}, "seconds": {:.3f}, "errors": {}, "p50": {:.3f}, "p99": {:.3f}}})"
             "\n",
             took.size(), lasted, errors, took[took.size() / 2], took[took.size() * 99 / 100]);
  return errors == 0 ? 0 : 1;
}

}  // namespace
}  // namespace torus

int main(int argc, char** argv) {
  const std::string verb = argc == 6 ? argv[2] : "";
  const std::string method = verb == "get"      ? "GetNode"
                             : verb == "list"   ? "ListNodes"
                             : verb == "create" ? "CreateNode"
                             : verb == "delete" ? "DeleteNode"
                                                : "";
  if (method.empty()) {
    fmt::print(stderr, "usage: {} PORT get|list|create|delete CONNECTIONS SECONDS COUNT\n",
               argv[0]);
    return 2;
  }
  return torus::Run(argv[1], {method, std::atoi(argv[5])}, std::atoi(argv[3]), std::atof(argv[4]));
}
