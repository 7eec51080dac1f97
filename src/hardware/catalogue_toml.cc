// Reads an operator's rows with toml++ and hands them to a CatalogueBuilder.
#include "hardware/catalogue_toml.h"

#include <toml++/toml.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

namespace torus::hardware {
namespace {

// Where a value stands, and the errors that say so.
class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  Status Read(const toml::table& root) {
    for (const auto& [key, value] : root) {
      if (key.str() == "runtime_versions") {
        TORUS_RETURN_IF_ERROR(ReadRuntimeVersions(value));
      } else if (key.str() == "zones") {
        TORUS_RETURN_IF_ERROR(ReadZones(value));
      } else {
        return At(key.source(), "unknown key \"{}\"; valid here: runtime_versions, [[zones]]",
                  key.str());
      }
    }
    return {};
  }

  Catalogue Build() && { return std::move(builder_).Build(); }

 private:
  template <typename... Args>
  Error At(const toml::source_region& where, fmt::format_string<Args...> format,
           Args&&... args) const {
    return InvalidArgument("{}:{}: {}", file_, where.begin.line,
                           fmt::format(format, std::forward<Args>(args)...));
  }

  // `status` with the place before its message.
  Status Placed(const toml::node& node, const Status& status) const {
    if (status.ok()) return status;
    return At(node.source(), "{}", status.message());
  }

  Status ReadRuntimeVersions(const toml::node& node) {
    return ForEachString(node, "runtime_versions", "[\"lab-image-1\"]",
                         [&](const std::string& name) { return builder_.AddRuntimeVersion(name); });
  }

  Status ReadZones(const toml::node& node) {
    const toml::array* zones = node.as_array();
    if (!zones) return At(node.source(), "zones is a list of tables: write [[zones]]");
    for (const toml::node& each : *zones) {
      const toml::table* zone = each.as_table();
      if (!zone) return At(each.source(), "zones is a list of tables: write [[zones]]");
      TORUS_RETURN_IF_ERROR(ReadZone(*zone));
    }
    return {};
  }

  Status ReadZone(const toml::table& zone) {
    for (const auto& [key, value] : zone) {
      if (key.str() != "name" && key.str() != "accelerator_types") {
        return At(key.source(), "unknown key \"{}\"; valid in a zone: name, accelerator_types",
                  key.str());
      }
    }
    const toml::node* name_node = zone.get("name");
    if (!name_node || !name_node->is_string()) {
      return At(name_node ? name_node->source() : zone.source(),
                "a zone needs a name, such as name = \"lab-north1-a\"");
    }
    const std::string name = **name_node->as_string();
    TORUS_RETURN_IF_ERROR(Placed(*name_node, builder_.AddZone(name)));
    const toml::node* types = zone.get("accelerator_types");
    if (!types) {
      return At(zone.source(),
                "zone {} needs accelerator_types, such as accelerator_types = [\"v2-8\", \"v5e\"]",
                name);
    }
    return ForEachString(*types, "accelerator_types", "[\"v2-8\", \"v5e\"]",
                         [&](const std::string& offer) { return builder_.AddOffer(name, offer); });
  }

  // Calls `visit` with each string of a list, and places its error.
  template <typename Visitor>
  Status ForEachString(const toml::node& node, std::string_view key, std::string_view example,
                       Visitor visit) {
    const toml::array* list = node.as_array();
    if (!list) return At(node.source(), "{} is a list of names, such as {}", key, example);
    for (const toml::node& each : *list) {
      const auto* text = each.as_string();
      if (!text) return At(each.source(), "{} is a list of names, such as {}", key, example);
      TORUS_RETURN_IF_ERROR(Placed(each, visit(text->get())));
    }
    return {};
  }

  std::string file_;
  CatalogueBuilder builder_;
};

}  // namespace

Result<Catalogue> CatalogueFromToml(std::string_view text, std::string_view file) {
  toml::table root;
  try {
    root = toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    return InvalidArgument("{}:{}: {}", file, error.source().begin.line, error.description());
  }
  Reader reader(file);
  TORUS_RETURN_IF_ERROR(reader.Read(root));
  return std::move(reader).Build();
}

Result<Catalogue> ReadCatalogueToml(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    const Code code = errno == EACCES ? Code::kPermissionDenied : Code::kNotFound;
    return MakeError(code, "cannot read the catalogue {}: {}", path, std::strerror(errno));
  }
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return CatalogueFromToml(text, path);
}

}  // namespace torus::hardware
