#include "service/model/operation.h"

#include <random>

#include "service/model/names.h"

namespace torus::model {
namespace {

uint64_t Random() {
  thread_local std::mt19937_64 generator = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  return generator();
}

}  // namespace

std::string NewUid() { return fmt::format("{:016x}", Random()); }

int64_t NewId() { return static_cast<int64_t>(Random() >> 1) | 1; }

OperationRecord BeginOperation(std::string_view verb, const google::protobuf::Timestamp& now,
                               NodeRecord* node) {
  const int64_t milliseconds = now.seconds() * 1000 + now.nanos() / 1'000'000;
  const std::string_view target = node->name();
  const std::string_view location = target.substr(0, target.rfind("/nodes/"));
  OperationRecord operation;
  operation.set_name(
      fmt::format("{}/operations/operation-{}-{:016x}", location, milliseconds, Random()));
  operation.set_target(node->name());
  operation.set_verb(std::string(verb));
  *operation.mutable_create_time() = now;
  operation.set_generation(node->generation());
  node->add_operations(operation.name());
  return operation;
}

void SetError(const Status& error, OperationRecord* operation) {
  operation->set_error_code(static_cast<int>(error.code()));
  operation->set_error_message(error.message());
}

void FinishOperation(const NodeRecord& node, const google::protobuf::Timestamp& now,
                     OperationRecord* operation) {
  operation->set_done(true);
  *operation->mutable_end_time() = now;
  operation->clear_status_detail();
  if (operation->error_code() != 0 || operation->verb() == "delete") return;
  *operation->mutable_result() = node;
  operation->mutable_result()->clear_metadata();  // may hold secrets, and must die with the node
}

}  // namespace torus::model
