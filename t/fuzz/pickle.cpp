// SPDX-License-Identifier: Apache-2.0
//
// A dump of torch's Flight Recorder: what is read of it has bounds, and comes out of its text as it was.
#include "base/json.hpp"
#include "doctor/collectives.hpp"
#include "require.hpp"

using nacre::fuzz::require;
using namespace nacre::doctor;  // NOLINT

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  auto log = collectives_in(bytes, 0);
  if (!log) {
    require(!log.error().message.empty(), "says why");
    return 0;
  }
  require(Pickle::read(bytes).has_value(), "it is a pickle");
  require(log->groups.size() <= CollectiveLog::kMostGroups, "so many groups");
  for (const CollectiveGroup& group : log->groups) {
    require(group.last.size() <= CollectiveLog::kMostLast, "so many collectives");
    for (const CollectiveCall& each : group.last) require(each.name.size() <= CollectiveLog::kMostText, "a name");
  }
  log->ranks.insert(0);
  log->torch_ranks.insert(0);
  CollectiveLog other = *log;
  other.ranks.insert(1);
  static_cast<void>(collective_findings(folded({*log, other})));
  return 0;
}
