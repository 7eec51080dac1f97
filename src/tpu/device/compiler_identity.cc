// The build id is read from memory, so it is that of the code which runs, whatever lies on disk.
#include "tpu/device/compiler_identity.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#ifdef __x86_64__
#include <cpuid.h>
#endif

// Where the linker put this library's ELF header, with what follows it.
extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start[];

namespace torus::tpu {
namespace {

// The build id among the notes of a segment.
std::string FindBuildId(const char* notes, size_t size) {
  constexpr std::string_view kOwner("GNU\0", 4);
  const auto padded = [](size_t bytes) { return (bytes + 3) / 4 * 4; };
  for (size_t at = 0; at + sizeof(ElfW(Nhdr)) <= size;) {
    const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(notes + at);
    const char* owner = notes + at + sizeof(*note);
    const char* content = owner + padded(note->n_namesz);
    if (note->n_type == NT_GNU_BUILD_ID && std::string_view(owner, note->n_namesz) == kOwner) {
      std::string id;
      for (size_t i = 0; i < note->n_descsz; ++i) {
        id += fmt::format("{:02x}", static_cast<unsigned char>(content[i]));
      }
      return id;
    }
    at += sizeof(*note) + padded(note->n_namesz) + padded(note->n_descsz);
  }
  return {};
}

#ifdef __x86_64__
// What says which instructions there are. Registers that tell of one core are left out.
std::string Features() {
  enum Register { kA = 1, kB = 2, kC = 4, kD = 8 };
  constexpr struct {
    unsigned leaf, subleaf;
    int registers;
  } kLeaves[] = {{0, 0, kB | kC | kD},
                 {1, 0, kA | kC | kD},
                 {7, 0, kB | kC | kD},
                 {7, 1, kA | kB | kC | kD},
                 {0xd, 1, kA},
                 {0x14, 0, kB},
                 {0x19, 0, kB},
                 {0x24, 0, kB},
                 {0x8000'0001, 0, kC | kD},
                 {0x8000'0008, 0, kB}};
  std::string text;
  for (const auto& [leaf, subleaf, registers] : kLeaves) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    __get_cpuid_count(leaf, subleaf, &a, &b, &c, &d);  // zeros where there is no such leaf
    for (const auto& [bit, value] : {std::pair(kA, a), {kB, b}, {kC, c}, {kD, d}}) {
      if ((registers & bit) != 0) text += fmt::format("{:x} ", value);
    }
  }
  return text;
}
#else
std::string Features() { return {}; }
#endif

}  // namespace

std::string OwnBuildId() {
  const auto* start = __ehdr_start;
  const auto& header = *reinterpret_cast<const ElfW(Ehdr)*>(start);
  const auto* headers = reinterpret_cast<const ElfW(Phdr)*>(start + header.e_phoff);
  for (size_t i = 0; i < header.e_phnum; ++i) {
    if (headers[i].p_type != PT_NOTE) continue;
    // In a program of a fixed address the segments' addresses are absolute.
    const bool fixed = header.e_type == ET_EXEC;
    const char* notes = (fixed ? nullptr : start) + headers[i].p_vaddr;
    if (auto id = FindBuildId(notes, headers[i].p_memsz); !id.empty()) return id;
  }
  return {};
}

std::string FileIdentity(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {};
  return fmt::format("{} {}.{}", status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

std::string CompilerEnvironment() {
  std::string text;
  for (const char* name : {"XLA_FLAGS", "PJRT_NPROC", "NPROC", "ONEDNN_MAX_CPU_ISA"}) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
    if (value == nullptr || *value == '\0') continue;
    text += fmt::format("{}={}\n", name, value);
  }
  return text;
}

std::string CpuIdentity() {
  cpu_set_t cpus;
  const int count = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? CPU_COUNT(&cpus) : 0;
  return fmt::format("{}{:x} {:x}, {} CPUs", Features(), getauxval(AT_HWCAP), getauxval(AT_HWCAP2),
                     count);
}

}  // namespace torus::tpu
