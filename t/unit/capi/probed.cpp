// SPDX-License-Identifier: Apache-2.0
#include "probed.hpp"

#include "catch.hpp"

#include "capi/loader.hpp"

namespace nacre::plugin {

Probed::Probed(const std::string& probe, const Json& conf) {
  Result<int> loaded = load(host, std::string(DSO_DIRECTORY) + "/probe_" + probe + ".so", conf);
  INFO((loaded ? "" : loaded.error().message));
  REQUIRE(loaded);
}

void Probed::judge(const std::string& topic, const Result<int>& called) {
  std::string log;
  for (const std::string& line : host.logged) log += line + "\n";
  INFO(topic << "\n" << log);
  CHECK(called == 1);
}

}  // namespace nacre::plugin
