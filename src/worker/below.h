// Files of a VM, from outside. All of it is the VM's to arrange, so nothing of it is trusted: no link
// is followed, nothing outside of its root is reached, and nothing is waited for.
//
// Thread-safe.
#ifndef TORUS_WORKER_BELOW_H_
#define TORUS_WORKER_BELOW_H_

#include <cstdint>
#include <string>

#include "base/fd.h"

namespace torus::worker {

// Opens what lies at `path` below `folder`, a descriptor; open(2)'s flags, and its mode with
// O_CREAT. None where there is no such thing, or a link on the way.
Fd OpenBelow(int folder, const std::string& path, uint64_t flags, uint64_t mode = 0);

// The bytes of a plain file; none of one that has more than `most` bytes, or no plain file.
std::string ReadBelow(int folder, const std::string& path, size_t most);

// Adds to a log of the VM's, which is made if need be, owned by `owner` of the host, and begun anew
// when it has more than `most` bytes. Whatever stands in the way, a full disk or a folder of that name,
// leaves it out.
void AppendBelow(int folder, const std::string& path, const std::string& text, uint32_t owner,
                 int64_t most);

}  // namespace torus::worker

#endif  // TORUS_WORKER_BELOW_H_
