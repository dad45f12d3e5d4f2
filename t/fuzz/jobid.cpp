// SPDX-License-Identifier: Apache-2.0
//
// A job id that parses is the same id in each of its forms.
#include "value/jobid.hpp"

#include "require.hpp"

using nacre::fuzz::require;
using nacre::value::JobId;

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  auto id = JobId::parse({reinterpret_cast<const char*>(data), size});
  if (!id) return 0;
  for (const std::string& text :
       {id->decimal(), id->hex(), id->dothex(), id->f58(), id->f58_plain(), id->words(), id->emoji()}) {
    auto again = JobId::parse(text);
    require(again.has_value(), "parses: " + text);
    require(*again == *id, "same id: " + text);
  }
  return 0;
}
