// SPDX-License-Identifier: Apache-2.0
//
// An entry of the list of jobs that is taken is written as a text that reads back to the same, or to what is
// shortened once and for all.
#include "record/places.hpp"

#include "require.hpp"

using nacre::fuzz::require;
using nacre::record::JobEntry;

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  auto entry = JobEntry::parse({reinterpret_cast<const char*>(data), size});
  if (!entry) {
    require(!entry.error().message.empty(), "says why");
    return 0;
  }
  std::string text = entry->text();
  require(text.size() <= JobEntry::kMaxText, "has a bounded size");
  auto again = JobEntry::parse(text);
  require(again.has_value(), "reads its own text: " + text);
  auto third = JobEntry::parse(again->text());
  require(third && *third == *again, "is shortened once");
  auto gone = JobEntry::parse(vanished(*again, 1).text());
  require(gone && gone->ended() && gone->end->vanished, "can be marked as vanished");
  return 0;
}
