// REST requests to the real handlers: "VERB TARGET\nBODY", "---" between two; a request "SETTLE"
// lets the controller's work be done. Every answer is JSON with its code, whatever was asked; and
// what was begun ends.
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "service/api/compute/compute.h"
#include "service/api/tpu/v2.h"
#include "service/backend/fake/fake_backend.h"
#include "service/gateway/rest.h"

namespace torus::fuzz {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMostRequests = 8;

google::protobuf::Timestamp Now() {
  google::protobuf::Timestamp now;
  now.set_seconds(1'800'000'000);
  return now;
}

class Service {
 public:
  Service() {
    std::string folder = fs::temp_directory_path() / "rest_fuzz_XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) std::abort();
    store_ = *store::Store::Open(folder + "/torus.db");
    registry_ = std::make_unique<gateway::Registry>(*store_);
    api::tpu::RegisterV2({&hardware::Catalogue::BuiltIn(), &backend_, Now}, registry_.get());
    api::compute::Register(registry_.get());
    rest_ = std::make_unique<gateway::Rest>(*registry_);
    fs::remove_all(folder);  // what is open stays
  }

  gateway::RestResponse Call(const gateway::RestRequest& request) {
    std::promise<gateway::RestResponse> promise;
    rest_->Handle(request, [&](gateway::RestResponse response) {
      promise.set_value(std::move(response));  // throws, should it reply twice
    });
    return promise.get_future().get();
  }

  // As the controller does until there is nothing more to do.
  void Settle() {
    Must([this](store::Transaction& transaction) -> Status {
      TORUS_ASSIGN_OR_RETURN(auto nodes, transaction.List<model::NodeRecord>(""));
      for (auto& node : nodes) {
        std::vector<model::OperationRecord> operations;
        for (const auto& name : node.operations()) {
          TORUS_ASSIGN_OR_RETURN(auto operation, transaction.Find<model::OperationRecord>(name));
          Check(operation.has_value(), "operation {} of a node is there", name);
          operations.push_back(*std::move(operation));
        }
        const auto advance =
            model::AdvanceNode(backend_.Converge(node, {}), Now(), &node, operations);
        for (const auto& operation : operations) {
          Check(operation.done(), "operation {} ends", operation.name());
          TORUS_RETURN_IF_ERROR(transaction.Put(operation));
        }
        TORUS_RETURN_IF_ERROR(transaction.Put(node));
        if (advance.erase) TORUS_RETURN_IF_ERROR(EraseNode(transaction, node));
      }
      return {};
    });
  }

  void Clear() {
    Must([](store::Transaction& transaction) -> Status {
      TORUS_ASSIGN_OR_RETURN(const auto nodes, transaction.List<model::NodeRecord>(""));
      TORUS_ASSIGN_OR_RETURN(const auto operations, transaction.List<model::OperationRecord>(""));
      TORUS_ASSIGN_OR_RETURN(const auto projects, transaction.List<model::ProjectRecord>(""));
      for (const auto& node : nodes) TORUS_RETURN_IF_ERROR(EraseNode(transaction, node));
      for (const auto& operation : operations)
        TORUS_RETURN_IF_ERROR(transaction.Erase<model::OperationRecord>(operation.name()));
      for (const auto& project : projects)
        TORUS_RETURN_IF_ERROR(transaction.Erase<model::ProjectRecord>(project.name()));
      return transaction.SetLastSlot(0);
    });
  }

 private:
  static Status EraseNode(store::Transaction& transaction, const model::NodeRecord& node) {
    for (const auto& host : node.hosts()) TORUS_RETURN_IF_ERROR(transaction.FreeSlot(host.slot()));
    return transaction.Erase<model::NodeRecord>(node.name());
  }

  void Must(store::Store::Body body) {
    const Status status = store_->WriteAndWait(std::move(body));
    Check(status.ok(), "the store takes it: {}", status.ToString());
  }

  backend::FakeBackend backend_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<gateway::Registry> registry_;
  std::unique_ptr<gateway::Rest> rest_;
};

void CheckAnswer(const gateway::RestRequest& request, const gateway::RestResponse& response) {
  const json body = json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  Check(body.is_object(), "the answer to {} {} is a JSON object: {}", request.verb, request.target,
        response.body);
  if (response.status == 200) return;
  Check(response.status >= 400 && response.status != 500, "{} {} is no fault of ours: {}",
        request.verb, request.target, response.body);
  const json& error = body["error"];
  Check(error["code"] == response.status && error["status"].is_string() &&
            error["message"].is_string() && !error["message"].get<std::string>().empty(),
        "an error has code, status and message: {}", response.body);
}

}  // namespace

void Fuzz(std::string_view input) {
  static Service& service = *new Service;
  bool changed = false;
  for (size_t i = 0; i < kMostRequests && !input.empty(); ++i) {
    std::string_view body = TakeUntil("---\n", &input);
    std::string_view target = TakeUntil("\n", &body);
    const std::string_view verb = TakeUntil(" ", &target);
    if (verb == "SETTLE") {
      service.Settle();
      continue;
    }
    const gateway::RestRequest request{std::string(verb), std::string(target), std::string(body)};
    const auto response = service.Call(request);
    CheckAnswer(request, response);
    changed |= verb != "GET" && response.status == 200;
  }
  if (changed) service.Clear();
}

}  // namespace torus::fuzz
