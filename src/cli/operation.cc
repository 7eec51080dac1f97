// Polls quickly at first, since a software TPU is there in a second, and slower later.
#include "cli/operation.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iostream>

#include "cli/values.h"

namespace torus::cli {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kFirstPoll{20};
constexpr milliseconds kLongestPoll{1000};
constexpr std::chrono::seconds kPatience{60};  // with a service that does not answer
constexpr std::chrono::seconds kSettle{5};     // after which a line of progress stays

volatile sig_atomic_t interrupted = 0;

// While it lives, Ctrl-C sets `interrupted` and ends a sleep instead of the process.
class InterruptGuard {
 public:
  InterruptGuard() {
    interrupted = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = 1; };
    sigaction(SIGINT, &action, &before_);
  }
  ~InterruptGuard() { sigaction(SIGINT, &before_, nullptr); }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  struct sigaction before_ {};
};

void Sleep(milliseconds time) {
  const timespec wait{time.count() / 1000, time.count() % 1000 * 1000000};
  nanosleep(&wait, nullptr);  // a signal ends it early, which is wanted
}

// The progress on stderr. Elsewhere than on a terminal a line cannot be taken back, so one waits
// until the next one comes or it has lasted: while a failed operation is undone, its last words are
// the reason, which the caller's error tells.
class Progress {
 public:
  explicit Progress(std::string_view doing) : doing_(doing), terminal_(isatty(STDERR_FILENO) == 1) {
    if (!terminal_) std::cerr << doing_ << "..." << std::endl;
  }

  void Show(const std::string& detail) {
    if (terminal_) {
      constexpr std::string_view kSpinner = "|/-\\";
      std::cerr << "\r\033[K" << doing_ << "... " << kSpinner[turn_++ % kSpinner.size()] << " "
                << detail << std::flush;
      return;
    }
    if (detail.empty()) return;
    const auto now = Clock::now();
    if (detail == latest_) {
      if (now - since_ > kSettle) Write();
      return;
    }
    Write();
    latest_ = detail;
    since_ = now;
    written_ = false;
  }

  // `error` is the operation's, if it has one.
  void End(std::string_view outcome, std::string_view error = {}) {
    if (terminal_) std::cerr << "\r\033[K" << doing_ << "... " << outcome << std::endl;
    if (latest_ != error) Write();
  }

 private:
  void Write() {
    if (!written_) std::cerr << "  " << latest_ << std::endl;
    written_ = true;
  }

  std::string doing_;
  std::string latest_;
  Clock::time_point since_;  // when latest_ came
  bool written_ = true;      // latest_ is
  bool terminal_;
  size_t turn_ = 0;
};

bool Done(const Json& operation) {
  const auto done = operation.find("done");
  return done != operation.end() && done->is_boolean() && done->get<bool>();
}

std::string Text(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Asks for the operation again; rides out a service that is away for less than kPatience.
Result<Json> Poll(const Client& client, const std::string& name, Clock::time_point& last_answer) {
  auto reply = client.Get(name);
  const auto now = Clock::now();
  if (reply || reply.error().code() != Code::kUnavailable) {
    last_answer = now;
    return reply;
  }
  if (now - last_answer > kPatience) return reply;
  return Json{{"name", name},
              {"metadata", {{"statusDetail", "the service does not answer; trying again"}}}};
}

}  // namespace

Result<Json> OperationResult(const Json& operation) {
  if (const auto error = operation.find("error"); error != operation.end() && error->is_object()) {
    const Json code = error->value("code", Json());
    return Error(
        Status(code.is_number_integer() ? static_cast<Code>(code.get<int>()) : Code::kUnknown,
               Text(*error, "message")));
  }
  Json response = operation.value("response", Json::object());
  response.erase("@type");
  return response;
}

std::string StatusDetail(const Json& operation) {
  const auto metadata = operation.find("metadata");
  return metadata == operation.end() || !metadata->is_object() ? ""
                                                               : Text(*metadata, "statusDetail");
}

std::string DescribeCommand(const Json& operation) {
  // The full name carries project and zone, so no flag is needed.
  return "torus operations describe " + Text(operation, "name");
}

Result<Json> WaitForOperation(const Client& client, Json operation, std::string_view doing) {
  const std::string name = Text(operation, "name");
  if (name.empty()) return Internal("the service answered with an operation that has no name");
  InterruptGuard guard;
  Progress progress(doing);
  milliseconds pause = kFirstPoll;
  auto last_answer = Clock::now();
  while (!Done(operation)) {
    progress.Show(StatusDetail(operation));
    Sleep(pause);
    if (interrupted) {
      progress.End("still running");
      return Cancelled("stopped waiting; the operation goes on. Look at it with: {}",
                       DescribeCommand(operation));
    }
    pause = std::min(pause * 5 / 4, kLongestPoll);
    TORUS_ASSIGN_OR_RETURN(operation, Poll(client, name, last_answer));
  }
  auto result = OperationResult(operation);
  if (result) {
    progress.End("done.");
  } else {
    progress.End("failed.", result.error().message());
  }
  return result;
}

}  // namespace torus::cli
