// The extensions that hang from a table or an argument struct, by type. Thread-safety: pure
// functions.
#ifndef TORUS_TPU_PJRT_EXTENSIONS_H_
#define TORUS_TPU_PJRT_EXTENSIONS_H_

#include <cstring>

#include "tpu/pjrt/api.h"

namespace torus::pjrt {

// What an extension is. Newer versions have types for which the header's enum has no room, so that
// C++ forbids to read them as one.
inline int TypeOf(const PJRT_Extension_Base& extension) {
  int type;
  std::memcpy(&type, &extension.type, sizeof(type));
  return type;
}

// The first of that type that is long enough; null where there is none.
template <typename Extension>
const Extension* FindInList(const PJRT_Extension_Base* list, int type) {
  for (; list != nullptr; list = list->next) {
    if (TypeOf(*list) == type && list->struct_size >= sizeof(Extension)) {
      return reinterpret_cast<const Extension*>(list);
    }
  }
  return nullptr;
}

}  // namespace torus::pjrt

#endif  // TORUS_TPU_PJRT_EXTENSIONS_H_
