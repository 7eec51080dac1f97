// Where this program's own files lie: libtpu.so, and beside it its engine and the Python package.
// Thread-safe.
#ifndef TORUS_BASE_INSTALLATION_H_
#define TORUS_BASE_INSTALLATION_H_

#include <string>

namespace torus {

// libtpu.so lies beside the program in a build, and in <prefix>/lib/torus once installed. The path,
// whether or not the file is there.
std::string InstalledLibtpu();

}  // namespace torus

#endif  // TORUS_BASE_INSTALLATION_H_
