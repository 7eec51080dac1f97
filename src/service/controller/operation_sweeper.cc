#include "service/controller/operation_sweeper.h"

#include <spdlog/spdlog.h>

namespace torus::controller {
namespace {

using namespace std::chrono_literals;

constexpr auto kPeriod = 1h;
constexpr int64_t kBatch = 500;  // a transaction's worth: others want the writer, too

}  // namespace

Result<int64_t> SweepOperations(store::Store& store, const google::protobuf::Timestamp& now) {
  int64_t erased = 0;
  std::string after;
  for (;;) {
    TORUS_ASSIGN_OR_RETURN(const auto batch, store.Read([&](store::View& view) {
      return view.List<model::OperationRecord>("", after, kBatch);
    }));
    if (batch.empty()) return erased;
    after = batch.back().name();
    std::vector<std::string> old;
    for (const auto& operation : batch)
      if (operation.done() && now.seconds() - operation.end_time().seconds() > kKeepOperations)
        old.push_back(operation.name());
    if (old.empty()) continue;
    TORUS_RETURN_IF_ERROR(store.WriteAndWait([&](store::Transaction& transaction) -> Status {
      for (const auto& name : old)
        TORUS_RETURN_IF_ERROR(transaction.Erase<model::OperationRecord>(name));
      return {};
    }));
    erased += static_cast<int64_t>(old.size());
  }
}

OperationSweeper::OperationSweeper(store::Store& store, Now now)
    : queue_(1, [&store, now = std::move(now)](const std::string&) -> WorkQueue::Clock::duration {
        const auto erased = SweepOperations(store, now());
        if (!erased) spdlog::error("sweeping operations: {}", erased.error().ToString());
        return kPeriod;
      }) {
  queue_.Add("operations");
}

}  // namespace torus::controller
