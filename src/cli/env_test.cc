// The environment for a shell, and what completion and the manual page make of the commands.
#include "cli/env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "cli/commands.h"
#include "cli/completion.h"

namespace torus::cli {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

EnvRequest Request(std::map<std::string, std::string> now = {}) {
  return {.endpoint = {"127.0.0.1", "7470"},
          .project = "it's",
          .config_folder = "/c",
          .now = [now](const char* name) {
            const auto found = now.find(name);
            return found == now.end() ? std::string() : found->second;
          }};
}

TEST(Env, SendsEveryApiHere) {
  const auto apis = OverridableApis();
  EXPECT_TRUE(std::ranges::is_sorted(apis));
  for (const char* api : {"tpu", "compute", "serviceusage", "cloudscheduler", "logging",
                          "monitoring", "iam", "cloudresourcemanager", "cloudbilling", "storage"})
    EXPECT_THAT(apis, Contains(api));
  const std::string text = PrintEnvironment(MakeEnvironment(Request()), Shell::kPosix);
  EXPECT_THAT(
      text,
      HasSubstr(
          "export CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE='http://127.0.0.1:7470/compute/v1/'\n"));
  EXPECT_THAT(text, HasSubstr("export CLOUDSDK_CORE_PROJECT='it'\\''s'\n"));
  EXPECT_THAT(text, HasSubstr("export CLOUDSDK_AUTH_DISABLE_CREDENTIALS='true'\n"));
  EXPECT_THAT(text, HasSubstr("unset GOOGLE_APPLICATION_CREDENTIALS\n"));
  EXPECT_THAT(text, Not(HasSubstr("DISABLE_PROMPTS='true'\nexport CLOUDSDK_CORE_DISABLE_PROMPTS")));
  EXPECT_THAT(text, Not(HasSubstr("CLOUDSDK_COMPUTE_ZONE")));
}

TEST(Env, SpeaksFish) {
  const std::string text = PrintEnvironment(MakeEnvironment(Request()), Shell::kFish);
  EXPECT_THAT(text, HasSubstr("set -gx CLOUDSDK_CORE_PROJECT 'it\\'s';\n"));
  EXPECT_THAT(text, Not(HasSubstr("export")));
  EXPECT_FALSE(ParseShell("csh"));
}

TEST(Env, GrowsNoProxyOnceAndTakesItBack) {
  const auto first = MakeEnvironment(Request({{"no_proxy", "a,localhost"}}));
  EXPECT_THAT(first.set, Contains(std::pair("no_proxy", "a,localhost,127.0.0.1")));
  const std::map<std::string, std::string> now(first.set.begin(), first.set.end());
  EXPECT_EQ(MakeEnvironment(Request(now)).set, first.set);
  EXPECT_THAT(
      PrintUnset(Request({{"no_proxy", "a,127.0.0.1"}, {"TORUS_ADDED_NO_PROXY", "127.0.0.1"}}),
                 Shell::kPosix),
      HasSubstr("export no_proxy='a'\n"));
}

TEST(Env, UnsetNamesAllThatWasSet) {
  const std::string back = PrintUnset(Request(), Shell::kPosix);
  for (const auto& [name, value] : MakeEnvironment(Request()).set)
    EXPECT_THAT(back, HasSubstr("unset " + name + "\n"));
}

// Sets a variable, or unsets it, for as long as it lives.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name), before_(Environment(name)) {
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~ScopedVariable() { before_.empty() ? unsetenv(name_) : setenv(name_, before_.c_str(), 1); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  const std::string before_;
};

TEST(Env, FindsTheConfigFolder) {
  const ScopedVariable no_config("XDG_CONFIG_HOME", nullptr);
  {
    const ScopedVariable home("HOME", "/h");
    EXPECT_EQ(*ConfigFolder(), "/h/.config/torus/gcloud");
    const ScopedVariable config("XDG_CONFIG_HOME", "/x");
    EXPECT_EQ(*ConfigFolder(), "/x/torus/gcloud");
  }
  const ScopedVariable no_home("HOME", nullptr);
  const passwd* account = getpwuid(geteuid());
  if (!account) GTEST_SKIP() << "needs an account";
  EXPECT_EQ(*HomeFolder(), account->pw_dir);
  EXPECT_EQ(*ConfigFolder(), std::string(account->pw_dir) + "/.config/torus/gcloud");
}

TEST(Completion, KnowsTheTree) {
  Invocation invocation;
  const auto app = MakeApp(invocation);
  const auto tree = CompletionTree(*app);
  const auto create = std::ranges::find(tree, "tpu-vm create", &CompletionNode::path);
  ASSERT_NE(create, tree.end());
  const auto zone = std::ranges::find(create->flags, "--zone", &CompletionNode::Flag::name);
  ASSERT_NE(zone, create->flags.end());
  EXPECT_TRUE(zone->takes_value);
  EXPECT_THAT(FlagValues("--zone"), Contains("us-central1-a"));
  EXPECT_THAT(FlagValues("--accelerator-type"), Contains("v5litepod-8"));
  EXPECT_EQ(std::ranges::find(tree, "worker", &CompletionNode::path), tree.end());
  for (const char* shell : {"bash", "zsh", "fish"})
    EXPECT_THAT(*CompletionScript(*app, shell), HasSubstr("us-central1-a"));
  EXPECT_FALSE(CompletionScript(*app, "csh"));
}

TEST(Help, EveryCommandHasAnExample) {
  Invocation invocation;
  const auto app = MakeApp(invocation);
  std::vector<const CLI::App*> left{app.get()};
  while (!left.empty()) {
    const CLI::App* command = left.back();
    left.pop_back();
    for (const CLI::App* each : command->get_subcommands([](const CLI::App*) { return true; })) {
      left.push_back(each);
      if (each->get_name() == "serve" || each->get_name() == "worker") continue;
      EXPECT_THAT(each->get_footer(), HasSubstr("torus ")) << each->get_name();
      EXPECT_FALSE(each->get_description().empty()) << each->get_name();
    }
  }
}

TEST(ManPage, TellsEveryCommand) {
  Invocation invocation;
  const std::string page = ManPage(*MakeApp(invocation));
  EXPECT_THAT(page, HasSubstr(".SS torus tpu\\-vm create TPU [FLAGS]\n"));
  EXPECT_THAT(page, HasSubstr(".SH EXIT STATUS\n"));
  // What every command takes is told once.
  const size_t first = page.find("endpoint\\fR=");
  ASSERT_NE(first, page.npos);
  EXPECT_EQ(page.find("endpoint\\fR=", first + 1), page.npos);
}

}  // namespace
}  // namespace torus::cli
