#include "service/backend/local/host_packages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace torus::backend {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(HostPackages, AnAddressLosesItsUser) {
  EXPECT_EQ(PublicAddress("https://user:secret@pypi.example/simple/?token=x"),
            "https://pypi.example/simple/");
  EXPECT_EQ(PublicAddress("http://mirror.example:3142"), "http://mirror.example:3142");
  EXPECT_EQ(PublicAddress("https://a@b@mirror.example/x"), "https://mirror.example/x");
}

TEST(HostPackages, AnAddressThatAVmCannotReachIsLeftOut) {
  for (const char* url : {"file:///opt/wheels", "/opt/wheels", "http://127.0.0.1:8080/simple",
                          "http://localhost/simple", "ssh://host/x", ""}) {
    EXPECT_EQ(PublicAddress(url), "") << url;
  }
}

TEST(HostPackages, TakesDebiansOwnSourcesOnly) {
  EXPECT_THAT(DebianSources("# comment\n"
                            "deb https://me:pw@mirror.example/debian bookworm main contrib\n"
                            "deb-src http://mirror.example/debian bookworm main\n"
                            "deb [arch=amd64 signed-by=/etc/apt/keyrings/x.gpg] "
                            "https://x.example/debian bookworm main\n"
                            "deb http://x.example/ubuntu jammy main\n"
                            "deb https://x.example/apt bookworm stable\n",
                            false, "bookworm"),
              ElementsAre("deb https://mirror.example/debian bookworm main contrib"));
}

TEST(HostPackages, ReadsDeb822) {
  EXPECT_THAT(DebianSources("Types: deb\nURIs: http://d.example/debian\n"
                            "Suites: bookworm bookworm-updates\n other\nComponents: main\n"
                            "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n"
                            "Types: deb\nURIs: https://n.example\nSuites: nodistro\n"
                            "Components: main\n\n"
                            "Types: deb\nEnabled: no\nURIs: http://d.example/sec\n"
                            "Suites: bookworm-security\nComponents: main\n",
                            true, "bookworm"),
              ElementsAre("deb http://d.example/debian bookworm main",
                          "deb http://d.example/debian bookworm-updates main"));
}

TEST(HostPackages, TakesPipsIndexesOnly) {
  EXPECT_THAT(PipOptions("[global]\nindex_url = https://u:p@i.example/simple\n"
                         "extra-index-url =\n  https://a.example/s\n  https://b:c@d.example/s\n"
                         "client-cert = /secret/key.pem\nfind-links = /opt/wheels\n"
                         "[list]\nindex-url = https://no.example\n"),
              ElementsAre(Pair("extra-index-url", "https://a.example/s https://d.example/s"),
                          Pair("index-url", "https://i.example/simple")));
}

TEST(HostPackages, SplitsABundle) {
  EXPECT_THAT(Certificates("# one\n-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----\n"
                           "-----BEGIN PRIVATE KEY-----\nB\n-----END PRIVATE KEY-----\n"
                           "-----BEGIN CERTIFICATE-----\nC"),
              ElementsAre("-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----\n"));
}

}  // namespace
}  // namespace torus::backend
