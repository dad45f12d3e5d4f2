// SPDX-License-Identifier: Apache-2.0
//
// An answer of NCCL's RAS: what follows from it, twice, has bounds, and comes out of its text as it was.
#include "doctor/nccl_ras.hpp"
#include "base/json.hpp"
#include "require.hpp"

using nacre::fuzz::require;
using namespace nacre::doctor;  // NOLINT

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  auto found = ras_communicators({reinterpret_cast<const char*>(data), size});
  if (!found) {
    require(!found.error().message.empty(), "says why");
    return 0;
  }
  auto findings = ras_findings(*found, *found, {{{"10.0.0.1", 101}, 7}});
  require(findings.size() <= kMostRasFindings, "so many findings");
  for (const RasFinding& each : folded(findings)) {
    auto again = RasFinding::parse(each.json());
    require(again && again->json() == each.json(), "reads its own text");
  }
  return 0;
}
