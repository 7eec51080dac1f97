// Runs a target on the files and folders that are named: the corpus as a unit test, and one input
// that made a fuzzer stop.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "fuzz.h"

namespace fs = std::filesystem;

int main(int argc, char** argv) {
  int inputs = 0;
  const auto replay = [&](const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string input{std::istreambuf_iterator<char>(file), {}};
    fmt::print("{}\n", path.string());
    std::fflush(stdout);  // the last line names the input that it dies of
    torus::fuzz::Fuzz(input);
    ++inputs;
  };
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      replay(argv[i]);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(argv[i])) replay(entry.path());
  }
  fmt::print("{} inputs\n", inputs);
  return inputs > 0 ? 0 : 1;
}
