// Status and Result: how every room of Torus reports an error.
//
// The codes are the canonical ones (google.rpc.Code); their numbers are the same in gRPC, PJRT and
// TensorFlow, so a border converts with a cast. A message says what, where and what to do next.
// Header-only and free of dependencies but {fmt}, because libtpu.so uses it too.
//
// Thread-safety: values, as std::string is.
#ifndef TORUS_BASE_STATUS_H_
#define TORUS_BASE_STATUS_H_

#include <fmt/format.h>

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace torus {

// google.rpc.Code (google/rpc/code.proto), by its numbers.
enum class Code : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

// The code's name as upstream's JSON spells it, such as "INVALID_ARGUMENT".
constexpr std::string_view CodeName(Code code) {
  constexpr std::string_view kNames[] = {"OK",
                                         "CANCELLED",
                                         "UNKNOWN",
                                         "INVALID_ARGUMENT",
                                         "DEADLINE_EXCEEDED",
                                         "NOT_FOUND",
                                         "ALREADY_EXISTS",
                                         "PERMISSION_DENIED",
                                         "RESOURCE_EXHAUSTED",
                                         "FAILED_PRECONDITION",
                                         "ABORTED",
                                         "OUT_OF_RANGE",
                                         "UNIMPLEMENTED",
                                         "INTERNAL",
                                         "UNAVAILABLE",
                                         "DATA_LOSS",
                                         "UNAUTHENTICATED"};
  const auto index = static_cast<unsigned>(code);
  return index < std::size(kNames) ? kNames[index] : "UNKNOWN";
}

// Success, or a code other than kOk with its message.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  // So that `return NotFound(...)` works alike in functions of Status and of Result.
  Status(std::unexpected<Status> error) : Status(std::move(error).error()) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  // "NOT_FOUND: no such node"; "OK".
  std::string ToString() const {
    return ok() ? "OK" : fmt::format("{}: {}", CodeName(code_), message_);
  }
  bool operator==(const Status&) const = default;

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

template <typename T>
using Result = std::expected<T, Status>;

using Error = std::unexpected<Status>;

// Makes an error of `code`, the message formatted as by fmt::format.
template <typename... Args>
Error MakeError(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return Error(Status(code, fmt::format(format, std::forward<Args>(args)...)));
}

#define TORUS_DEFINE_ERROR(Name)                                          \
  template <typename... Args>                                             \
  Error Name(fmt::format_string<Args...> format, Args&&... args) {        \
    return MakeError(Code::k##Name, format, std::forward<Args>(args)...); \
  }
TORUS_DEFINE_ERROR(Cancelled)
TORUS_DEFINE_ERROR(InvalidArgument)
TORUS_DEFINE_ERROR(DeadlineExceeded)
TORUS_DEFINE_ERROR(NotFound)
TORUS_DEFINE_ERROR(AlreadyExists)
TORUS_DEFINE_ERROR(PermissionDenied)
TORUS_DEFINE_ERROR(ResourceExhausted)
TORUS_DEFINE_ERROR(FailedPrecondition)
TORUS_DEFINE_ERROR(Aborted)
TORUS_DEFINE_ERROR(OutOfRange)
TORUS_DEFINE_ERROR(Unimplemented)
TORUS_DEFINE_ERROR(Internal)
TORUS_DEFINE_ERROR(Unavailable)
#undef TORUS_DEFINE_ERROR

// Returns the error of a Status or Result expression from the enclosing function, if it has one.
#define TORUS_RETURN_IF_ERROR(expression)                                       \
  do {                                                                          \
    if (::torus::Status torus_status = ::torus::internal::ToStatus(expression); \
        !torus_status.ok())                                                     \
      return ::torus::Error(std::move(torus_status));                           \
  } while (false)

// TORUS_ASSIGN_OR_RETURN(auto value, Function()): binds the value or returns the error.
#define TORUS_ASSIGN_OR_RETURN(declaration, expression) \
  TORUS_ASSIGN_OR_RETURN_(TORUS_CONCAT_(torus_result_, __LINE__), declaration, expression)
#define TORUS_ASSIGN_OR_RETURN_(result, declaration, expression) \
  auto result = (expression);                                    \
  if (!result) return ::torus::Error(std::move(result).error()); \
  declaration = *std::move(result)
#define TORUS_CONCAT_(a, b) TORUS_CONCAT__(a, b)
#define TORUS_CONCAT__(a, b) a##b

namespace internal {
inline Status ToStatus(Status status) { return status; }
template <typename T>
Status ToStatus(Result<T> result) {
  return result ? Status() : std::move(result).error();
}
}  // namespace internal

}  // namespace torus

#endif  // TORUS_BASE_STATUS_H_
