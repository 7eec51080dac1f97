// The recipe of a TPU VM's base image: packages, files and a last script. Its digest names the
// image, so a changed recipe, or a changed configuration of the host, makes a new image beside.
//
// What image and worker agree on (docs/tpu_vm.md): /run/torus is the folder that the worker hands
// in, read-only; sshd takes its host keys and the users' keys from there; /opt/torus has libtpu.so
// and its engine; the group google-sudoers may do all; tini is there to be process 1.
//
// Pure. Thread-safety: values.
#ifndef TORUS_SERVICE_BACKEND_LOCAL_IMAGE_RECIPE_H_
#define TORUS_SERVICE_BACKEND_LOCAL_IMAGE_RECIPE_H_

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "service/backend/local/host_packages.h"

namespace torus::backend {

struct ImageFile {
  std::string path;  // absolute, in the image
  mode_t mode = 0644;
  std::string content;
};

// Python packages by pip, into the image's Python or a virtual environment of its own.
struct PythonPackages {
  std::string environment;   // absolute, in the image; empty: the image's Python
  std::string requirements;  // lines of a requirements file
  bool locked = false;       // each with its hashes, and nothing besides
};

struct ImageRecipe {
  std::string suite;
  std::vector<std::string> packages;
  std::vector<std::string> apt_sources;  // none: mmdebstrap's default for the suite
  std::vector<ImageFile> files;          // written after the packages are installed
  std::string ca_bundle;               // PEM: those that Debian does not bring are trusted besides
  std::vector<PythonPackages> python;  // installed in this order
  std::string script;                  // /bin/sh, run last, in the image, as root

  // SHA-256 over all of the above, in hexadecimal.
  std::string Digest() const;
};

// Debian 12 with Python, sshd and sudo, set up as the tutorials find a TPU VM. With a TensorFlow's
// version (2.13.0 or newer) it has that, and the worker that its clients reach at port 8470; an
// older one has no wheel for the image's Python and is left out.
ImageRecipe TpuVmRecipe(const HostPackages& host, std::string_view tensorflow = {});

}  // namespace torus::backend

#endif  // TORUS_SERVICE_BACKEND_LOCAL_IMAGE_RECIPE_H_
