// Pages of a list, as Google's APIs ask for them: a size and a token that names the last item seen.
// Pure. Thread-safety: values.
#ifndef TORUS_SERVICE_API_PAGING_H_
#define TORUS_SERVICE_API_PAGING_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace torus::api {

struct Page {
  std::string after;  // names after this one; empty: from the first
  int64_t size = 0;
};

inline constexpr int64_t kMaxPageSize = 1000;

// Size 0 means kMaxPageSize, and a larger one is cut to it, as upstream does. INVALID_ARGUMENT: a
// negative size, or a token that no list of ours gave.
Result<Page> ParsePage(int32_t page_size, std::string_view page_token);

// The token for the page after the item of this name.
std::string PageToken(std::string_view last_name);

// Reads the page of `items` (sorted by `name_of`) into `take`; returns the next page's token.
template <typename Items, typename NameOf, typename Take>
std::string TakePage(const Page& page, const Items& items, NameOf name_of, Take take) {
  int64_t taken = 0;
  std::string last;
  for (const auto& item : items) {
    const std::string name(name_of(item));
    if (name <= page.after) continue;
    if (taken == page.size) return PageToken(last);
    take(item);
    last = name;
    ++taken;
  }
  return "";
}

}  // namespace torus::api

#endif  // TORUS_SERVICE_API_PAGING_H_
