// SPDX-License-Identifier: Apache-2.0
//
// A duration that parses is shown as text that parses to the very same duration.
#include "require.hpp"
#include "value/duration.hpp"

using nacre::fuzz::require;
using nacre::value::Duration;

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  auto duration = Duration::parse({reinterpret_cast<const char*>(data), size});
  if (!duration) return 0;
  require(duration->seconds() >= 0, "not negative");
  auto again = Duration::parse(duration->str());
  require(again.has_value(), "parses: " + duration->str());
  require(*again == *duration, "same duration: " + duration->str());
  require(again->str() == duration->str(), "same text: " + duration->str());
  return 0;
}
