// Drives a `torus serve` as many clients at once: each of its threads takes nodes of its own
// through their whole lives over gRPC, all threads together fight over one node, and others list
// over REST meanwhile. Every answer is checked; the counts come last. Exits with 1 where one was
// wrong.
//
//   build/release/tests/service/torus_driver --address 127.0.0.1:7470 --threads 8 --nodes 4
//
// With --seconds it goes on for so long (a soak); with a backend that makes real VMs, set --nodes
// and --patience as the machine can bear.
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "cli/client.h"
#include "google/cloud/tpu/v2/cloud_tpu.pb.h"
#include "google/longrunning/operations.pb.h"
#include "google/protobuf/empty.pb.h"

namespace torus {
namespace {

namespace v2 = google::cloud::tpu::v2;
using google::longrunning::Operation;
using google::protobuf::Empty;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct Options {
  std::string address = "127.0.0.1:7470";
  std::string project = "driver";
  std::string zone = "us-central1-a";
  std::string type = "v2-8";
  std::string version = "tpu-ubuntu2204-base";
  int threads = 8;
  int nodes = 4;
  int seconds = 0;
  int patience = 60;

  std::string parent() const { return fmt::format("projects/{}/locations/{}", project, zone); }
  std::string name(const std::string& id) const { return parent() + "/nodes/" + id; }
};

// What was asked and what was wrong with the answers.
class Counts {
 public:
  void Asked(const std::string& what) {
    const MutexLock lock(mutex_);
    ++asked_[what];
  }
  void Wrong(const std::string& text) {
    const MutexLock lock(mutex_);
    if (++wrong_ <= kMostShown) fmt::print(stderr, "wrong: {}\n", text);
  }
  // Prints all; the exit status.
  int Report() {
    const MutexLock lock(mutex_);
    for (const auto& [what, count] : asked_) fmt::print("{:>9} {}\n", count, what);
    fmt::print("{:>9} wrong answers\n", wrong_);
    return wrong_ == 0 ? 0 : 1;
  }

 private:
  static constexpr int kMostShown = 20;
  Mutex mutex_;
  std::map<std::string, int64_t> asked_ TORUS_GUARDED_BY(mutex_);
  int64_t wrong_ TORUS_GUARDED_BY(mutex_) = 0;
};

// The Cloud TPU API over gRPC; a connection of its own.
class Api {
 public:
  Api(const Options& options, Counts& counts) : counts_(counts) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ =
        grpc::CreateCustomChannel(options.address, grpc::InsecureChannelCredentials(), arguments);
  }

  // `method`: "Tpu/GetNode", of google.cloud.tpu.v2; or with its whole package.
  template <typename Response, typename Request>
  Result<Response> Call(const std::string& method, const Request& request) {
    constexpr auto kTime = std::chrono::seconds(60);
    counts_.Asked(method.substr(method.find('/') + 1));
    const std::string path =
        method.starts_with("Tpu/") ? "/google.cloud.tpu.v2." + method : "/" + method;
    const grpc::internal::RpcMethod rpc(path.c_str(), grpc::internal::RpcMethod::NORMAL_RPC);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kTime);
    Response response;
    const grpc::Status status =
        grpc::internal::BlockingUnaryCall(channel_.get(), rpc, &context, request, &response);
    if (status.ok()) return response;
    return Error(Status(static_cast<Code>(status.error_code()), status.error_message()));
  }

 private:
  Counts& counts_;
  std::shared_ptr<grpc::Channel> channel_;
};

// One thread's client: the verbs, each with its check.
class Client {
 public:
  Client(const Options& options, Counts& counts)
      : options_(options), counts_(counts), api_(options, counts) {}

  Result<Operation> Create(const std::string& id) {
    v2::CreateNodeRequest request;
    request.set_parent(options_.parent());
    request.set_node_id(id);
    request.mutable_node()->set_accelerator_type(options_.type);
    request.mutable_node()->set_runtime_version(options_.version);
    return api_.Call<Operation>("Tpu/CreateNode", request);
  }
  Result<Operation> Update(const std::string& id, const std::string& description) {
    v2::UpdateNodeRequest request;
    request.mutable_node()->set_name(options_.name(id));
    request.mutable_node()->set_description(description);
    (*request.mutable_node()->mutable_labels())["driver"] = description;
    request.mutable_update_mask()->add_paths("description");
    request.mutable_update_mask()->add_paths("labels");
    return api_.Call<Operation>("Tpu/UpdateNode", request);
  }
  Result<Operation> Stop(const std::string& id) {
    return Named<Operation, v2::StopNodeRequest>("Tpu/StopNode", id);
  }
  Result<Operation> Start(const std::string& id) {
    return Named<Operation, v2::StartNodeRequest>("Tpu/StartNode", id);
  }
  Result<Operation> Delete(const std::string& id) {
    return Named<Operation, v2::DeleteNodeRequest>("Tpu/DeleteNode", id);
  }
  Result<v2::Node> Get(const std::string& id) {
    return Named<v2::Node, v2::GetNodeRequest>("Tpu/GetNode", id);
  }

  // Waits until the operation ends, and returns how.
  Status Await(const Result<Operation>& begun) {
    if (!begun) return begun.error();
    google::longrunning::GetOperationRequest request;
    request.set_name(begun->name());
    const auto deadline = Clock::now() + std::chrono::seconds(options_.patience);
    for (milliseconds pause(2);; pause = std::min(pause * 2, milliseconds(250))) {
      const auto now = api_.Call<Operation>("google.longrunning.Operations/GetOperation", request);
      if (!now) return now.error();
      if (now->done())
        return Status(static_cast<Code>(now->error().code()), now->error().message());
      if (Clock::now() > deadline)
        return DeadlineExceeded("operation {} did not end in {} s", begun->name(),
                                options_.patience);
      std::this_thread::sleep_for(pause);
    }
  }

  // Notes an answer that has not this code.
  bool Expect(Code code, const Status& status, std::string_view what, const std::string& id) {
    if (status.code() == code) return true;
    counts_.Wrong(
        fmt::format("{} {}: {} was expected, not {}", what, id, CodeName(code), status.ToString()));
    return false;
  }
  // Notes a node that is not in this state, or does not say what was written last.
  void ExpectNode(const std::string& id, v2::Node::State state, const std::string& description) {
    const auto node = Get(id);
    if (!node) return (void)Expect(Code::kOk, node.error(), "get", id);
    if (node->state() == state && node->description() == description &&
        node->accelerator_type() == options_.type)
      return;
    counts_.Wrong(fmt::format("get {}: {} \"{}\" was expected, not {}", id,
                              v2::Node::State_Name(state), description, node->ShortDebugString()));
  }

 private:
  template <typename Response, typename Request>
  Result<Response> Named(const std::string& method, const std::string& id) {
    Request request;
    request.set_name(options_.name(id));
    return api_.Call<Response>(method, request);
  }

  const Options& options_;
  Counts& counts_;
  Api api_;
};

template <typename T>
Status Outcome(const Result<T>& result) {
  return result ? Status() : result.error();
}

// From a node's birth to its end, with what may not be done at each point.
void LiveOneLife(Client& client, const std::string& id) {
  if (!client.Expect(Code::kOk, client.Await(client.Create(id)), "create", id)) return;
  client.ExpectNode(id, v2::Node::READY, "");
  client.Expect(Code::kAlreadyExists, Outcome(client.Create(id)), "create again", id);
  client.Expect(Code::kInvalidArgument, Outcome(client.Start(id)), "start of what runs", id);
  client.Expect(Code::kOk, client.Await(client.Update(id, "one")), "update", id);
  client.ExpectNode(id, v2::Node::READY, "one");
  client.Expect(Code::kOk, client.Await(client.Stop(id)), "stop", id);
  client.ExpectNode(id, v2::Node::STOPPED, "one");
  client.Expect(Code::kOk, client.Await(client.Update(id, "two")), "update while stopped", id);
  client.Expect(Code::kOk, client.Await(client.Start(id)), "start", id);
  client.ExpectNode(id, v2::Node::READY, "two");
  client.Expect(Code::kOk, client.Await(client.Delete(id)), "delete", id);
  client.Expect(Code::kNotFound, Outcome(client.Get(id)), "get of what is gone", id);
  client.Expect(Code::kNotFound, Outcome(client.Delete(id)), "delete again", id);
}

// Anything at any time to a node that others change too: each answer is one that some order of
// events explains, and what is begun ends.
void Fight(Client& client, const std::string& id, std::mt19937& random) {
  Result<Operation> begun = Operation();
  switch (random() % 6) {
    case 0:
    case 1:
      begun = client.Create(id);
      break;
    case 2:
      begun = client.Update(id, "fight");
      break;
    case 3:
      begun = client.Stop(id);
      break;
    case 4:
      begun = client.Start(id);
      break;
    default:
      begun = client.Delete(id);
  }
  // ABORTED: another's delete or stop came before the end.
  const Code code = client.Await(begun).code();
  if (code != Code::kInvalidArgument && code != Code::kNotFound && code != Code::kAlreadyExists &&
      code != Code::kAborted)
    client.Expect(Code::kOk, Status(code, "of a node that all change"), "fight over", id);
}

// Lists over REST, page by page, until the others are done: sorted, and no node twice.
void ListOn(const Options& options, Counts& counts, const std::atomic<bool>& done) {
  const auto endpoint = cli::ParseEndpoint("http://" + options.address);
  if (!endpoint) return counts.Wrong(endpoint.error().ToString());
  const cli::Client client(*endpoint, std::chrono::seconds(60));
  while (!done) {
    counts.Asked("list over REST");
    const auto nodes = client.List(options.parent() + "/nodes", "nodes");
    if (!nodes) {
      counts.Wrong("list: " + nodes.error().ToString());
      continue;
    }
    std::vector<std::string> names;
    for (const auto& node : *nodes) names.push_back(node.value("name", ""));
    if (std::ranges::adjacent_find(names, std::ranges::greater_equal()) != names.end())
      counts.Wrong(fmt::format("list: names out of order: {}", fmt::join(names, " ")));
    std::this_thread::sleep_for(milliseconds(5));
  }
}

int Drive(const Options& options) {
  Counts counts;
  // Two runs on one service do not meet.
  const std::string run = fmt::format("d{:x}", std::random_device()());
  const auto until = Clock::now() + std::chrono::seconds(options.seconds);
  std::atomic<bool> done = false;
  std::thread lister([&] { ListOn(options, counts, done); });
  std::vector<std::thread> threads;
  for (int t = 0; t < options.threads; ++t) {
    threads.emplace_back([&, t] {
      Client client(options, counts);
      std::mt19937 random(static_cast<unsigned>(t));
      for (int round = 0; round == 0 || Clock::now() < until; ++round) {
        for (int n = 0; n < options.nodes; ++n) {
          LiveOneLife(client, fmt::format("{}-{}-{}-{}", run, t, round, n));
          Fight(client, run + "-all", random);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  done = true;
  lister.join();
  Client client(options, counts);
  if (client.Get(run + "-all"))
    client.Expect(Code::kOk, client.Await(client.Delete(run + "-all")), "delete", run + "-all");
  return counts.Report();
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Drives a Torus service as many clients, and checks every answer.", "torus_driver");
  app.add_option("--address", options.address, "HOST:PORT of the service")->capture_default_str();
  app.add_option("--threads", options.threads, "clients at once")->capture_default_str();
  app.add_option("--nodes", options.nodes, "nodes a client makes in a round")
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "begin rounds for so long; 0: one round")
      ->capture_default_str();
  app.add_option("--patience", options.patience, "seconds until an operation must have ended")
      ->capture_default_str();
  app.add_option("--project", options.project)->capture_default_str();
  app.add_option("--zone", options.zone)->capture_default_str();
  app.add_option("--type", options.type, "accelerator type")->capture_default_str();
  app.add_option("--version", options.version, "runtime version")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return Drive(options);
}

}  // namespace
}  // namespace torus

int main(int argc, char** argv) { return torus::Main(argc, argv); }
