// SPDX-License-Identifier: Apache-2.0
//
// A notice that is taken is written as lines that read back to the same, and a client that takes it as a snapshot
// has as many records as it says.
#include "exits/notice.hpp"

#include "notice_reader.hpp"
#include "require.hpp"

using nacre::exits::Notice;
using nacre::fuzz::require;
using nacre::kit::NoticeMap;

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  auto notice = nacre::kit::decode_notice({reinterpret_cast<const char*>(data), size});
  if (!notice) {
    require(notice.error().message.starts_with("notice: "), notice.error().message);
    return 0;
  }
  Notice whole;
  for (const std::string& line : notice->encode()) {
    require(line.size() <= Notice::kMaxPart && line.find('\n') == line.size() - 1,
            "a line of the size that is promised");
    auto part = nacre::kit::decode_notice(line);
    require(part.has_value(), "reads its own lines: " + line);
    for (const auto& [name, ranks] : part->classes) whole.classes[name] = whole.classes[name] | ranks;
    whole.open = whole.open | part->open;
    whole.cut = whole.cut | part->cut;
  }
  require(whole.classes == notice->classes, "the same classes");
  require(whole.open == notice->open && whole.cut == notice->cut, "the same marks");
  NoticeMap map;
  notice->base = true;
  notice->more = false;
  if (map.take(*notice)) require(map.ranks().size() == notice->done, "as many records as it says");
  return 0;
}
