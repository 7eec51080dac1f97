// What libtpu.so and torus-verify say to each other over a socket: frames of protobuf's wire form,
// each behind its length. Both are of one build, so the form has no versions.
// Thread-safety: pure functions, but for Send and Receive, which are the socket's.
#ifndef TORUS_TPU_VERIFY_MESSAGE_H_
#define TORUS_TPU_VERIFY_MESSAGE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace torus::tpu::verify {

// What a compiler says of a program on one device.
struct Estimate {
  std::string error;   // empty: it compiles
  int64_t memory = 0;  // bytes of HBM: arguments, results and temporaries
  double flops = 0, bytes = 0;
  double seconds = 0;  // below 0: not known
};

// A program as the framework sent it, and what Torus says of it.
struct Request {
  std::string name;  // "jit_step"
  std::string code, format, options;
  int64_t memory_limit = 0;
  Estimate ours;
};

std::string Write(const Estimate& estimate);
std::string Write(const Request& request);
// Of bytes that Write made.
Estimate ReadEstimate(std::string_view bytes);
Request ReadRequest(std::string_view bytes);

// Sends a frame; false where the other end is gone or takes nothing for the socket's time.
bool Send(int socket, std::string_view frame);
// The next frame; none where the other end is gone.
std::optional<std::string> Receive(int socket);

}  // namespace torus::tpu::verify

#endif  // TORUS_TPU_VERIFY_MESSAGE_H_
