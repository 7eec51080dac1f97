// The only file that is compiled again when the commit changes.
#include "cli/version.h"

#include "torus_build.h"

namespace torus::cli {

const char* Version() { return TORUS_VERSION; }
const char* Commit() { return TORUS_COMMIT; }
const char* Engine() { return TORUS_ENGINE; }

std::string VersionLine() {
  return std::string("torus ") + Version() + " (commit " + Commit() + ", engine " + Engine() + ")";
}

}  // namespace torus::cli
