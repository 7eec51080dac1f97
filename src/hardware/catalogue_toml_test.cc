// An operator's TOML: what it adds, and what a mistake in it is told.
#include "hardware/catalogue_toml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

namespace torus::hardware {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CatalogueToml, AddsZonesOffersAndVersions) {
  auto catalogue = CatalogueFromToml(R"(
runtime_versions = ["lab-image-1"]

[[zones]]
name = "lab-north1-a"
accelerator_types = ["v2-8", "v5e"]

[[zones]]
name = "us-central1-a"
accelerator_types = ["v4"]
)",
                                     "torus.toml");
  ASSERT_TRUE(catalogue) << catalogue.error().ToString();
  EXPECT_NE(catalogue->FindRuntimeVersion("lab-image-1"), nullptr);
  EXPECT_NE(catalogue->FindRuntimeVersion("tpu-vm-base"), nullptr);
  const Zone* lab = catalogue->FindZone("lab-north1-a");
  ASSERT_NE(lab, nullptr);
  EXPECT_TRUE(lab->ours);
  EXPECT_TRUE(catalogue->Offers(*lab, *catalogue->FindAcceleratorType("v5litepod-4")));
  const Zone* central = catalogue->FindZone("us-central1-a");
  EXPECT_FALSE(central->ours);
  EXPECT_TRUE(catalogue->Offers(*central, *catalogue->FindAcceleratorType("v4-8")));
  EXPECT_TRUE(catalogue->Offers(*central, *catalogue->FindAcceleratorType("v2-8")));
}

TEST(CatalogueToml, AnEmptyTextIsTheBuiltInRows) {
  auto catalogue = CatalogueFromToml("", "torus.toml");
  ASSERT_TRUE(catalogue);
  EXPECT_EQ(catalogue->zones().size(), Catalogue::BuiltIn().zones().size());
}

struct Mistake {
  const char* text;
  const char* line;
  const char* says;
};
void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.line << mistake.says; }

class Mistakes : public ::testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, NameTheLineAndWhatIsValid) {
  auto catalogue = CatalogueFromToml(GetParam().text, "torus.toml");
  ASSERT_FALSE(catalogue);
  EXPECT_EQ(catalogue.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(catalogue.error().message(),
              AllOf(HasSubstr(GetParam().line), HasSubstr(GetParam().says)));
}

INSTANTIATE_TEST_SUITE_P(
    CatalogueToml, Mistakes,
    ::testing::Values(
        Mistake{"\nzone = 1\n", "torus.toml:2:", "runtime_versions"},
        Mistake{"x = [", "torus.toml:1:", ""},
        Mistake{"runtime_versions = 3", "torus.toml:1:", "list of names"},
        Mistake{"runtime_versions = [\n 3]", "torus.toml:2:", "list of names"},
        Mistake{"runtime_versions = [\n \"a b\"]", "torus.toml:2:", "letters, digits"},
        Mistake{"zones = 4", "torus.toml:1:", "[[zones]]"},
        Mistake{"[[zones]]\naccelerator_types = []", "torus.toml:1:", "needs a name"},
        Mistake{"[[zones]]\nname = \"lab1-a\"", "torus.toml:1:", "accelerator_types"},
        Mistake{"[[zones]]\nname = \"Lab\"\naccelerator_types = []", "torus.toml:2:", "lower-case"},
        Mistake{"[[zones]]\nname = \"lab1-a\"\ntypes = []", "torus.toml:3:", "accelerator_types"},
        Mistake{"[[zones]]\nname = \"lab1-a\"\naccelerator_types = [\"v2-8\",\n\"v9\"]",
                "torus.toml:4:", "v5e"}));

TEST(CatalogueToml, AMissingFileIsNotFound) {
  auto catalogue = ReadCatalogueToml("/nonexistent/torus.toml");
  ASSERT_FALSE(catalogue);
  EXPECT_EQ(catalogue.error().code(), Code::kNotFound);
  EXPECT_THAT(catalogue.error().message(), HasSubstr("/nonexistent/torus.toml"));
}

}  // namespace
}  // namespace torus::hardware
