// Fields, and bytes on the socket.
#include "tpu/verify/message.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

namespace torus::tpu::verify {
namespace {

using protozero::pbf_reader;
using protozero::pbf_writer;

namespace estimate_field {
enum : protozero::pbf_tag_type { kError = 1, kMemory, kFlops, kBytes, kSeconds };
}
namespace request_field {
enum : protozero::pbf_tag_type { kName = 1, kCode, kFormat, kOptions, kMemoryLimit, kOurs };
}

bool SendAll(int socket, const void* data, size_t size) {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t sent = send(socket, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

bool ReceiveAll(int socket, void* data, size_t size) {
  auto* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = recv(socket, at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

std::string Write(const Estimate& estimate) {
  using namespace estimate_field;
  std::string bytes;
  pbf_writer writer(bytes);
  writer.add_string(kError, estimate.error);
  writer.add_int64(kMemory, estimate.memory);
  writer.add_double(kFlops, estimate.flops);
  writer.add_double(kBytes, estimate.bytes);
  writer.add_double(kSeconds, estimate.seconds);
  return bytes;
}

std::string Write(const Request& request) {
  using namespace request_field;
  std::string bytes;
  pbf_writer writer(bytes);
  writer.add_string(kName, request.name);
  writer.add_bytes(kCode, request.code);
  writer.add_string(kFormat, request.format);
  writer.add_bytes(kOptions, request.options);
  writer.add_int64(kMemoryLimit, request.memory_limit);
  writer.add_message(kOurs, Write(request.ours));
  return bytes;
}

Estimate ReadEstimate(std::string_view bytes) {
  using namespace estimate_field;
  Estimate estimate;
  pbf_reader reader(bytes.data(), bytes.size());
  while (reader.next()) {
    switch (reader.tag()) {
      case kError:
        estimate.error = reader.get_string();
        break;
      case kMemory:
        estimate.memory = reader.get_int64();
        break;
      case kFlops:
        estimate.flops = reader.get_double();
        break;
      case kBytes:
        estimate.bytes = reader.get_double();
        break;
      case kSeconds:
        estimate.seconds = reader.get_double();
        break;
      default:
        reader.skip();
    }
  }
  return estimate;
}

Request ReadRequest(std::string_view bytes) {
  using namespace request_field;
  Request request;
  pbf_reader reader(bytes.data(), bytes.size());
  while (reader.next()) {
    switch (reader.tag()) {
      case kName:
        request.name = reader.get_string();
        break;
      case kCode:
        request.code = reader.get_bytes();
        break;
      case kFormat:
        request.format = reader.get_string();
        break;
      case kOptions:
        request.options = reader.get_bytes();
        break;
      case kMemoryLimit:
        request.memory_limit = reader.get_int64();
        break;
      case kOurs:
        request.ours = ReadEstimate(reader.get_bytes());
        break;
      default:
        reader.skip();
    }
  }
  return request;
}

bool Send(int socket, std::string_view frame) {
  const uint64_t size = frame.size();
  return SendAll(socket, &size, sizeof(size)) && SendAll(socket, frame.data(), frame.size());
}

std::optional<std::string> Receive(int socket) {
  uint64_t size = 0;
  if (!ReceiveAll(socket, &size, sizeof(size))) return std::nullopt;
  std::string frame(size, '\0');
  if (!ReceiveAll(socket, frame.data(), size)) return std::nullopt;
  return frame;
}

}  // namespace torus::tpu::verify
