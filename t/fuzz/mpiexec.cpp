// SPDX-License-Identifier: Apache-2.0
//
// Each line is a word of mpiexec's. What is read is options of nacre run, then `--` and a program; an error has a
// text.
#include "front/mpiexec.hpp"

#include "base/text.hpp"
#include "require.hpp"

using nacre::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> words;
  for (std::string_view each : nacre::split(text, '\n')) {
    if (each.find("configfile") != each.npos || each.find("app") != each.npos) continue;  // files of this host
    words.emplace_back(each);
  }
  auto read = nacre::front::read_mpiexec(words, [](const char*) { return std::optional<std::string>(); });
  if (!read) {
    require(!read.error().message.empty(), "an error has a text");
    return 0;
  }
  if (read->kind != nacre::front::MpiexecRun::Kind::job) return 0;
  auto end = std::find(read->words.begin(), read->words.end(), "--");
  require(end != read->words.end() && end + 1 != read->words.end() && !end[1].empty(), "a program");
  for (auto each = read->words.begin(); each != end; ++each)
    require(each->starts_with("--"), "an option: " + *each);
  return 0;
}
