// What libtpu.so adds to the dispatch of a tiny program, measured at the PJRT seam.
//
//   bench_dispatch LIBTPU_SO [ENGINE_SO]
//
// Both doors lead to one engine in this process: through libtpu.so, and bare. A dispatch is an
// execution of x + x on four floats and the destruction of its result. Blocks of dispatches
// alternate between the doors in random order; each pair of blocks gives a ratio, and the figure is
// the ratios' median with a bootstrap 95% confidence interval. The bar is 1.05: the exit code is 1
// if the median misses it.
#include <dlfcn.h>
#include <sys/utsname.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tpu/pjrt/engine.h"
#include "tpu/testing/pjrt_user.h"

namespace torus::tpu {
namespace {

constexpr double kBar = 1.05;
constexpr int kPairs = 600;
constexpr int kDispatchesABlock = 200;
constexpr int kWarmUpBlocks = 10;
constexpr int kResamples = 2000;

constexpr char kTinyProgram[] = R"(
module @tiny {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %x, %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

// A client on one door, with the tiny program loaded.
struct Door {
  PjrtUser user;
  PJRT_LoadedExecutable* program;
  PJRT_Buffer* argument;

  static Result<Door> Open(const PJRT_Api* api, int64_t device_count) {
    TORUS_ASSIGN_OR_RETURN(PjrtUser user, PjrtUser::Make(api, device_count));
    TORUS_ASSIGN_OR_RETURN(auto* program, user.Compile(kTinyProgram));
    TORUS_ASSIGN_OR_RETURN(auto* argument, user.FromHost({1, 2, 3, 4}));
    return Door{std::move(user), program, argument};
  }

  // Nanoseconds a dispatch takes, over a block.
  Result<double> TimeBlock() const {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kDispatchesABlock; ++i) {
      TORUS_ASSIGN_OR_RETURN(const auto outputs, user.Run(program, {argument}, 1));
      TORUS_RETURN_IF_ERROR(user.Destroy(outputs[0]));
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    return took.count() / kDispatchesABlock;
  }
};

double Quantile(std::vector<double> values, double q) {
  const auto at = values.begin() + static_cast<ptrdiff_t>(q * (values.size() - 1));
  std::ranges::nth_element(values, at);
  return *at;
}

struct Measurement {
  std::vector<double> ours, bare, ratios;
};

Result<Measurement> Measure(const Door& ours, const Door& bare, std::mt19937& random) {
  Measurement measured;
  for (int pair = -kWarmUpBlocks; pair < kPairs; ++pair) {
    const bool ours_first = (random() & 1) != 0;
    TORUS_ASSIGN_OR_RETURN(const double first, (ours_first ? ours : bare).TimeBlock());
    TORUS_ASSIGN_OR_RETURN(const double second, (ours_first ? bare : ours).TimeBlock());
    if (pair < 0) continue;
    measured.ours.push_back(ours_first ? first : second);
    measured.bare.push_back(ours_first ? second : first);
    measured.ratios.push_back(measured.ours.back() / measured.bare.back());
  }
  return measured;
}

// The interval that 95% of the medians of resampled ratios fall into.
std::pair<double, double> Bootstrap(const std::vector<double>& ratios, std::mt19937& random) {
  std::uniform_int_distribution<size_t> any(0, ratios.size() - 1);
  std::vector<double> medians(kResamples), sample(ratios.size());
  for (double& median : medians) {
    std::ranges::generate(sample, [&] { return ratios[any(random)]; });
    median = Quantile(sample, 0.5);
  }
  return {Quantile(medians, 0.025), Quantile(medians, 0.975)};
}

std::string Machine() {
  std::ifstream cpu("/proc/cpuinfo");
  std::string line, model = "unknown CPU";
  while (std::getline(cpu, line)) {
    if (line.starts_with("model name")) model = line.substr(line.find(':') + 2);
  }
  utsname system{};
  uname(&system);
  return fmt::format("{}, {} cores, {} {}", model, std::thread::hardware_concurrency(),
                     system.sysname, system.release);
}

Result<bool> Main(const std::string& library, const std::string& engine) {
  TORUS_ASSIGN_OR_RETURN(const PJRT_Api* our_api, pjrt::Engine::Open(library));
  TORUS_ASSIGN_OR_RETURN(const PJRT_Api* bare_api, pjrt::Engine::Open(engine));
  TORUS_ASSIGN_OR_RETURN(const Door ours, Door::Open(our_api, 0));
  const auto devices = static_cast<int64_t>(ours.user.devices().size());
  TORUS_ASSIGN_OR_RETURN(const Door bare, Door::Open(bare_api, devices));
  std::mt19937 random(20261130);
  TORUS_ASSIGN_OR_RETURN(const Measurement measured, Measure(ours, bare, random));
  const double ratio = Quantile(measured.ratios, 0.5);
  const auto [low, high] = Bootstrap(measured.ratios, random);
  const auto us = [](const std::vector<double>& ns) { return Quantile(ns, 0.5) / 1000; };
  fmt::print("machine: {}\n", Machine());
  fmt::print("dispatch of a tiny program, {} devices: libtpu.so {:.3f} us, bare engine {:.3f} us\n",
             devices, us(measured.ours), us(measured.bare));
  fmt::print("ratio {:.4f}, 95% confidence {:.4f} to {:.4f} ({} pairs of {} dispatches): {} {}\n",
             ratio, low, high, kPairs, kDispatchesABlock, ratio <= kBar ? "within" : "MISSES",
             kBar);
  return ratio <= kBar;
}

}  // namespace
}  // namespace torus::tpu

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: %s LIBTPU_SO [ENGINE_SO]\n", argv[0]);
    return 2;
  }
  const std::filesystem::path library = argv[1];
  const auto beside = library.parent_path() / "engine" / "xla_cpu.so";
  const auto within = torus::tpu::Main(library, argc == 3 ? argv[2] : beside.string());
  if (!within) {
    std::fprintf(stderr, "error: %s\n", within.error().ToString().c_str());
    return 2;
  }
  return *within ? 0 : 1;
}
