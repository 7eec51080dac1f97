// Included before all else: TensorFlow's headers are C++17, and where they see C++23's
// to_underlying they name it as if it were a type (xla/util.h of 2.20).
#include <utility>
#include <version>
#undef __cpp_lib_to_underlying
