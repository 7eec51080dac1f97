#include "base/installation.h"

#include <filesystem>

namespace torus {

std::string InstalledLibtpu() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path built = folder / "libtpu.so";
  return fs::exists(built, error) ? built : folder.parent_path() / "lib/torus/libtpu.so";
}

}  // namespace torus
