// SPDX-License-Identifier: Apache-2.0
#include "record/bad_hosts.hpp"

#include "base/text.hpp"
#include "wire/json.hpp"

namespace nacre::record {

void fields(auto& io, wire::Of<BadHostNote> auto& m) {
  io.has("time", m.time);
  io.has("host", m.host);
  io.has("check", m.check);
  io.has("reason", m.reason);
}

std::string BadHostNote::text() const { return wire::to_text(*this); }

BadHosts BadHosts::parse(std::string_view text, double now) {
  constexpr double kAhead = 60;  // seconds, of another host's clock
  BadHosts out;
  for (std::string_view line : split(text, '\n')) {
    auto note = wire::from_text<BadHostNote>(std::string(line));
    if (note && note->time > now - kRemembered && note->time < now + kAhead) out.notes.push_back(*std::move(note));
  }
  return out;
}

BadHosts BadHosts::read(const std::vector<EntryDirectory>& directories, double now) {
  BadHosts out;
  for (const EntryDirectory& each : directories) {
    if (auto text = each.read_bad_hosts()) {
      BadHosts here = parse(*text, now);
      std::move(here.notes.begin(), here.notes.end(), std::back_inserter(out.notes));
    }
  }
  std::stable_sort(out.notes.begin(), out.notes.end(),
                   [](const auto& a, const auto& b) { return a.time < b.time; });
  return out;
}

BadHosts BadHosts::read(const std::vector<std::string>& places, double now) {
  std::vector<EntryDirectory> directories;
  for (const std::string& each : places) {
    if (auto directory = EntryDirectory::open(each)) directories.push_back(*std::move(directory));
  }
  return read(directories, now);
}

Result<void> BadHosts::add(const EntryDirectory& directory, std::vector<BadHostNote> notes, double now) {
  std::string lines;
  for (BadHostNote& each : notes) {
    each.reason.resize(std::min(each.reason.size(), kMostReason));
    lines += each.text() + '\n';
  }
  auto before = directory.read_bad_hosts();
  if (!before || before->size() + lines.size() <= kMostText) return directory.add_bad_hosts(lines);
  BadHosts kept = parse(*before, now);
  std::string text;
  for (auto each = kept.notes.rbegin(); each != kept.notes.rend() && text.size() < kMostText / 2; ++each)
    text.insert(0, each->text() + '\n');
  return directory.replace_bad_hosts(text + lines);
}

std::map<std::string, BadHosts::Summary> BadHosts::by_host() const {
  std::map<std::string, Summary> out;
  for (const BadHostNote& each : notes) {
    Summary& host = out[each.host];
    host.last = each;
    ++host.times;
  }
  return out;
}

}  // namespace nacre::record
