// SPDX-License-Identifier: Apache-2.0
//
// With command lines of mpiexec.hydra 4.0. The program itself: t/cluster/managers.bats.
#include "boot/pmi_session.hpp"

#include <unistd.h>

#include "catch.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::boot;  // NOLINT

namespace {

Words local(const std::string& id, const std::string& group = "0") {
  return {"/usr/bin/hydra_pmi_proxy", "--control-port", "node0:46167", "--pgid", group, "--proxy-id", id};
}

Words remote(const std::string& id, const std::string& host) {
  Words out{"/usr/bin/ssh", "-x", host, "\"/usr/bin/hydra_pmi_proxy\""};
  Words rest = local(id);
  out.insert(out.end(), rest.begin() + 1, rest.end());
  return out;
}

HydraProxies three() { return HydraProxies(3, 1, local("0")); }

}  // namespace

TEST_CASE("the number of proxies is that of the nodes in the mapping") {
  CHECK(proxies_in_mapping("(vector,(0,4,1))") == 4);
  CHECK(proxies_in_mapping("(vector,(0,4,2),(4,1,1))") == 5);
  CHECK(proxies_in_mapping("(vector,(0,1,8),(0,1,8))") == 1);
  for (const char* bad :
       {"", "(vector)", "(vector,(0,4", "(vector,(a,4,1))", "(vector,(0,99999999999,1))", "node0,node1"})
    CHECK_FALSE(proxies_in_mapping(bad));
}

TEST_CASE("a proxy that has ended is reported with its host once nothing has changed for a while") {
  HydraProxies proxies = three();
  CHECK_FALSE(proxies.ended({local("0"), remote("1", "node1"), remote("2", "node2")}, 10));
  CHECK_FALSE(proxies.ended({local("0"), remote("2", "node2")}, 11));
  CHECK_FALSE(proxies.ended({local("0"), remote("2", "node2")}, 12.5));
  auto said = proxies.ended({local("0"), remote("2", "node2")}, 13);
  REQUIRE(said);
  CHECK_THAT(*said, Catch::Matchers::ContainsSubstring("proxy 1 on node1"));
}

TEST_CASE("proxies that are still being started are not reported") {
  HydraProxies proxies = three();
  CHECK_FALSE(proxies.ended({local("0")}, 10));
  CHECK_FALSE(proxies.ended({local("0"), remote("1", "node1")}, 11.9));
  CHECK_FALSE(proxies.ended({local("0"), remote("1", "node1"), remote("2", "node2")}, 13.8));
  CHECK_FALSE(proxies.ended({local("0"), remote("1", "node1"), remote("2", "node2")}, 100));
}

TEST_CASE("what does not show each proxy tells nothing") {
  HydraProxies proxies = three();
  for (double now : {10.0, 20.0}) {
    CHECK_FALSE(proxies.ended({}, now));
    CHECK_FALSE(proxies.ended({{"srun", "-N", "3", "hydra_pmi_proxy", "--pgid", "0", "--proxy-id", "-1"}}, now));
    CHECK_FALSE(proxies.ended({local("0"), remote("1", "node1"), remote("7", "node2")}, now));
    CHECK_FALSE(proxies.ended({local("0", "1"), {"sleep", "9"}, {}}, now));
  }
}

TEST_CASE("only a proxy has proxies beside it") {
  CHECK_FALSE(HydraProxies::find(::getpid(), 3));
  CHECK_FALSE(HydraProxies::find(0, 3));
}
