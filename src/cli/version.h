// What this build is. Constants; thread-safe.
#ifndef TORUS_CLI_VERSION_H_
#define TORUS_CLI_VERSION_H_

#include <string>

namespace torus::cli {

const char* Version();  // "0.1.0"
const char* Commit();   // the git commit it was built from, "unknown" outside git
const char* Engine();   // what libtpu.so runs programs on by default

// "torus 0.1.0 (commit 1ae62c1d2f3a, engine …)".
std::string VersionLine();

}  // namespace torus::cli

#endif  // TORUS_CLI_VERSION_H_
