// Owns a file descriptor.
//
// Header-only. Not thread-safe.
#ifndef TORUS_BASE_FD_H_
#define TORUS_BASE_FD_H_

#include <unistd.h>

#include <utility>

namespace torus {

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}  // -1: owns none
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { Close(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  // Gives it up: the caller owns it now.
  int Release() { return std::exchange(fd_, -1); }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

}  // namespace torus

#endif  // TORUS_BASE_FD_H_
