// SPDX-License-Identifier: Apache-2.0
#include "timeline/trace_event.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/json.hpp"

namespace nacre::timeline {

std::string json_string(std::string_view text) {
  auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (!std::all_of(text.begin(), text.end(), is_plain)) return dump_json(text);
  std::string out;
  out.reserve(text.size() + 2);
  return out.append(1, '"').append(text).append(1, '"');
}

// The keys ascend, as in all JSON that nacre writes.
std::string TraceEvent::text() const {
  std::string out = "{";
  auto put = std::back_inserter(out);
  if (!args.empty()) fmt::format_to(put, R"("args":{},)", args);
  if (binds_to_slice) out += R"("bp":"e",)";
  if (category != nullptr) fmt::format_to(put, R"("cat":"{}",)", category);
  if (dur) fmt::format_to(put, R"("dur":{},)", *dur);
  if (!id.empty()) fmt::format_to(put, R"("id":{},)", id);
  fmt::format_to(put, R"("name":{},"ph":"{}","pid":{},)", json_string(name), phase, pid);
  if (is_of_thread) out += R"("s":"t",)";
  fmt::format_to(put, R"("tid":{})", tid);
  if (ts) fmt::format_to(put, R"(,"ts":{})", *ts);
  out += '}';
  return out;
}

}  // namespace nacre::timeline
