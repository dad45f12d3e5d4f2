// SPDX-License-Identifier: Apache-2.0
//
// A rehearsal that parses is shown as text that parses to the very same events; errors have the place.
#include "job/rehearsal.hpp"

#include "require.hpp"

using nacre::fuzz::require;
using nacre::job::Rehearsal;
using nacre::job::RehearsalEvent;

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  auto parsed = Rehearsal::parse({reinterpret_cast<const char*>(data), size});
  if (!parsed) {
    const std::string& why = parsed.error().message;
    require(why.starts_with("at character ") || why.starts_with("is longer"), why);
    return 0;
  }
  require(!parsed->events().empty() && parsed->events().size() <= Rehearsal::kMostEvents, "a number of events");
  std::string text;
  for (const RehearsalEvent& each : parsed->events()) {
    text += (text.empty() ? "" : "; ") + each.str();
    require(each.node.empty() != each.ranks.empty(), "a node or ranks");
    require(each.signal > 0, "a signal");
    bool is_node_freeze = each.action == RehearsalEvent::Action::freeze && !each.node.empty();
    require(each.action != RehearsalEvent::Action::cut || !each.node.empty(), "a cut of nodes");
    require(!is_node_freeze || each.lasts.has_value(), "a node that goes on");
  }
  if (text.size() > Rehearsal::kMostText) return 0;
  auto again = Rehearsal::parse(text);
  require(again.has_value(), "parses: " + text);
  require(again->events() == parsed->events(), "the same events: " + text);
  return 0;
}
