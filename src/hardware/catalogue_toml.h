// An operator's rows for the catalogue, read from TOML:
//
//   runtime_versions = ["lab-image-1"]      # more names that `--version` may say
//
//   [[zones]]                               # a new zone, or more offers in one that is there
//   name = "lab-north1-a"
//   accelerator_types = ["v2-8", "v5e"]     # types, or whole generations
//
// Reads text, or one file when asked to; keeps no state. Thread-safety: free functions, reentrant.
#ifndef TORUS_HARDWARE_CATALOGUE_TOML_H_
#define TORUS_HARDWARE_CATALOGUE_TOML_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "hardware/catalogue.h"

namespace torus::hardware {

// The built-in rows and those of `text`. `file` names the text in messages. INVALID_ARGUMENT says
// the file, the line and what is valid there.
Result<Catalogue> CatalogueFromToml(std::string_view text, std::string_view file);

// The same from a file. NOT_FOUND or PERMISSION_DENIED if it cannot be read.
Result<Catalogue> ReadCatalogueToml(const std::string& path);

}  // namespace torus::hardware

#endif  // TORUS_HARDWARE_CATALOGUE_TOML_H_
