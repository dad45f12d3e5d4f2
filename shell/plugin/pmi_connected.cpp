// SPDX-License-Identifier: Apache-2.0
#include "plugin/pmi_connected.hpp"

#include <algorithm>

#include "job/options.hpp"

namespace nacre::plugin {

value::Idset pmi_connected(Host& host, std::string_view component) {
  Call call("pmi.connected");
  value::Idset all;
  if (Result<int> called = host.stack().call(call); !called)
    host.log().log(Level::warn, component, "{}", called.error().message);
  for (const auto& [plugin, ranks] : call.out.items()) {
    auto some = job::ranks_option(JsonAt::root(ranks, "pmi.connected: " + plugin));
    if (!some) host.log().log(Level::warn, component, "{}", some.error().message);
    if (some && *some) all = all | **some;
  }
  return all;
}

bool spawned_connected(Host& host) {
  Call call("pmi.spawned");
  if (Result<int> called = host.stack().call(call); !called)
    host.log().log(Level::warn, "", "{}", called.error().message);
  const auto& all = call.out.items();
  return std::any_of(all.begin(), all.end(), [](const auto& each) { return each.value() == true; });
}

}  // namespace nacre::plugin
