#include "service/api/paging.h"

#include <absl/strings/escaping.h>

#include <algorithm>

namespace torus::api {
namespace {

constexpr std::string_view kMark = "torus1:";  // the token's form, so that a stray one is known

}  // namespace

Result<Page> ParsePage(int32_t page_size, std::string_view page_token) {
  if (page_size < 0) return InvalidArgument("page_size {} is negative.", page_size);
  Page page;
  page.size = page_size == 0 ? kMaxPageSize : std::min<int64_t>(page_size, kMaxPageSize);
  if (page_token.empty()) return page;
  std::string decoded;
  if (!absl::WebSafeBase64Unescape({page_token.data(), page_token.size()}, &decoded) ||
      !decoded.starts_with(kMark))
    return InvalidArgument(
        "page_token \"{}\" is not one that this list gave; leave it out to start from the first "
        "page.",
        page_token);
  page.after = decoded.substr(kMark.size());
  return page;
}

std::string PageToken(std::string_view last_name) {
  return absl::WebSafeBase64Escape(std::string(kMark).append(last_name));
}

}  // namespace torus::api
