// The worker protocol, as the service takes it: reports as text, "---" between two, are sent over
// one stream. The service answers with the order and the status that the protocol says.
#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <filesystem>

#include "fuzz.h"
#include "service/backend/local/worker_hub.h"
#include "text_message.h"
#include "worker.grpc.pb.h"

namespace torus::fuzz {
namespace {

using backend::VmKey;
using grpc::StatusCode;

struct Service {
  Service() {
    spdlog::set_level(spdlog::level::off);
    // A socket as workers have it: gRPC's in-process channel leaves a writer waiting whose stream
    // the service has ended.
    const std::string socket =
        std::filesystem::temp_directory_path() / fmt::format("report-{}", getpid());
    Check(hub.Start(socket).ok(), "the hub listens at {}", socket);
    stub = worker::WorkerLink::NewStub(
        grpc::CreateChannel("unix:" + socket, grpc::InsecureChannelCredentials()));
  }
  backend::WorkerHub hub{[](const std::string&) {}};
  std::unique_ptr<worker::WorkerLink::Stub> stub;
};

std::vector<worker::WorkerReport> ReadReports(std::string_view input) {
  constexpr size_t kMost = 8;
  std::vector<worker::WorkerReport> reports;
  while (!input.empty() && reports.size() < kMost) {
    if (!ReadMessage(TakeUntil("---\n", &input), &reports.emplace_back())) reports.pop_back();
  }
  return reports;
}

// What the service has to say to these reports.
struct Expected {
  std::optional<VmKey> key;  // of the VM whose worker was taken
  StatusCode code = StatusCode::OK;
};

Expected Expect(const std::vector<worker::WorkerReport>& reports) {
  Expected expected;
  for (const auto& report : reports) {
    if (report.has_hello() && report.hello().protocol_version() != 1)
      expected.code = StatusCode::FAILED_PRECONDITION;
    else if (report.has_hello() && expected.key)
      expected.code = StatusCode::INVALID_ARGUMENT;
    else if (!report.has_hello() && !expected.key)
      expected.code = StatusCode::INVALID_ARGUMENT;
    else if (report.has_hello())
      expected.key = VmKey{report.hello().node_uid(), report.hello().worker_index()};
    if (expected.code != StatusCode::OK) break;
  }
  return expected;
}

}  // namespace

void Fuzz(std::string_view input) {
  static Service& service = *new Service;
  const auto reports = ReadReports(input);
  const Expected expected = Expect(reports);
  worker::WorkerOrder order;
  order.set_generation(7);
  if (expected.key) service.hub.Order(*expected.key, order);

  grpc::ClientContext context;
  const auto stream = service.stub->Connect(&context);
  for (const auto& report : reports)
    if (!stream->Write(report)) break;
  stream->WritesDone();
  worker::WorkerOrder got;
  int orders = 0;
  while (stream->Read(&got)) {
    ++orders;
    Check(got.generation() == order.generation(), "generation {} was ordered", got.generation());
  }
  const grpc::Status status = stream->Finish();
  Check(status.error_code() == expected.code, "{} is the answer, and {}: {} came",
        static_cast<int>(expected.code), static_cast<int>(status.error_code()),
        status.error_message());
  Check(orders <= 1, "one order came, not {}", orders);

  for (const auto& report : reports)
    if (report.has_hello())
      service.hub.Forget({report.hello().node_uid(), report.hello().worker_index()});
}

}  // namespace torus::fuzz
