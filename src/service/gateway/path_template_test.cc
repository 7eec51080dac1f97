#include "service/gateway/path_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace torus::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

std::optional<PathTemplate::Bindings> Match(std::string_view text, std::string_view path) {
  const auto parsed = PathTemplate::Parse(text);
  EXPECT_TRUE(parsed) << text;
  return parsed->Match(path);
}

TEST(PathTemplate, BindsVariables) {
  EXPECT_THAT(
      *Match("/v2/{name=projects/*/locations/*/nodes/*}", "/v2/projects/p/locations/z/nodes/n"),
      ElementsAre(Pair("name", "projects/p/locations/z/nodes/n")));
  EXPECT_THAT(
      *Match("/v2/{parent=projects/*/locations/*}/nodes", "/v2/projects/p/locations/-/nodes"),
      ElementsAre(Pair("parent", "projects/p/locations/-")));
  EXPECT_THAT(*Match("/compute/v1/projects/{project}/global/operations/{operation}/wait",
                     "/compute/v1/projects/p/global/operations/o/wait"),
              ElementsAre(Pair("project", "p"), Pair("operation", "o")));
  EXPECT_THAT(*Match("/v1/{name=operations/**}", "/v1/operations/a/b"),
              ElementsAre(Pair("name", "operations/a/b")));
  EXPECT_THAT(*Match("/v2/{node.name=projects/*}", "/v2/projects/p"),
              ElementsAre(Pair("node.name", "projects/p")));
}

TEST(PathTemplate, TellsVerbsApart) {
  constexpr char kStop[] = "/v2/{name=projects/*/nodes/*}:stop";
  constexpr char kGet[] = "/v2/{name=projects/*/nodes/*}";
  EXPECT_THAT(*Match(kStop, "/v2/projects/p/nodes/n:stop"),
              ElementsAre(Pair("name", "projects/p/nodes/n")));
  EXPECT_FALSE(Match(kStop, "/v2/projects/p/nodes/n"));
  EXPECT_FALSE(Match(kStop, "/v2/projects/p/nodes/n:start"));
  EXPECT_FALSE(Match(kGet, "/v2/projects/p/nodes/n:stop"));
  EXPECT_TRUE(Match("/v2/{name=projects/*/nodes/*}", "/v2/projects/example.com:p/nodes/n"));
}

TEST(PathTemplate, DecodesAsTheSpecificationSays) {
  EXPECT_THAT(*Match("/v2/{id}", "/v2/a%20b%2Fc"), ElementsAre(Pair("id", "a b/c")));
  EXPECT_THAT(*Match("/v2/{name=a/*}", "/v2/a/b%20c%2Fd"), ElementsAre(Pair("name", "a/b c%2Fd")));
  EXPECT_EQ(PercentDecode("100%"), "100%");
  EXPECT_EQ(PercentDecode("%zz%4"), "%zz%4");
}

TEST(PathTemplate, RefusesOtherPaths) {
  for (const char* path : {"", "/", "/v2", "/v2/", "/v2/projects", "/v2/projects/",
                           "/v2/projects/p/", "/v2/projects//x", "/v1/projects/p", "v2/projects/p"})
    EXPECT_FALSE(Match("/v2/{name=projects/*}", path)) << path;
}

TEST(PathTemplate, RefusesWrongTemplates) {
  for (const char* text :
       {"", "v2", "/v2/{name", "/v2//x", "/{a=**}/b", "/v2/{name=*}x", "/v2/",
        "/v2/{name}:", "/v2/x{name}", "/v2/}", "/v2/a*", "/v2/{=a}", "/v2/{}", "/v2/{a={b=*}}"})
    EXPECT_FALSE(PathTemplate::Parse(text)) << text;
}

}  // namespace
}  // namespace torus::gateway
