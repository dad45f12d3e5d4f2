// SPDX-License-Identifier: Apache-2.0
#include "timeline/batch.hpp"

#include <fmt/format.h>

#include "base/bytes.hpp"
#include "base/json.hpp"

namespace nacre::timeline {
namespace {

constexpr std::size_t kMostNames = 256;
constexpr std::size_t kMostText = 1024;  // bytes of a name, and of a clock
constexpr std::int64_t kMostTime = INT64_MAX / 2;

void append(std::string& out, const TimelineEvent& event) {
  append_number(out, static_cast<std::uint64_t>(event.time));
  append_number(out, static_cast<std::uint64_t>(event.value));
  append_number(out, event.subject);
  append_number(out, static_cast<std::uint16_t>(event.kind));
  append_number(out, event.name);
}

Result<TimelineEvent> take_event(std::string_view& bytes) {
  TimelineEvent out;
  out.time = static_cast<Time>(take_number<std::uint64_t>(bytes));
  out.value = static_cast<std::int64_t>(take_number<std::uint64_t>(bytes));
  out.subject = take_number<std::uint32_t>(bytes);
  auto kind = take_number<std::uint16_t>(bytes);
  out.name = take_number<std::uint16_t>(bytes);
  if (kind == 0 || kind > kLastKind) return invalid(fmt::format("an event of the kind {} is not known", kind));
  if (out.time < 0 || out.time > kMostTime) return invalid("an event has an impossible time");
  out.kind = static_cast<Kind>(kind);
  return out;
}

}  // namespace

std::string TimelineBatch::text() const {
  Json head{{"number", number}, {"received", received}, {"sent", sent}, {"last", is_last}, {"dropped", dropped}};
  if (!clock.empty()) head["clock"] = clock;
  if (!names.empty()) head["names"] = names;
  std::string out = dump_json(head) + '\n';
  out.reserve(out.size() + events.size() * sizeof(TimelineEvent));
  for (const TimelineEvent& each : events) append(out, each);
  return out;
}

Result<TimelineBatch> TimelineBatch::parse(std::string_view text) {
  std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return invalid("the head has no end");
  Json json = TRY(parse_json(text.substr(0, end)));
  JsonAt at = JsonAt::root(json);
  TimelineBatch out;
  out.number = static_cast<std::uint64_t>(TRY(TRY(at.at("number")).integer(0, kMostTime)));
  out.received = TRY(TRY(at.at("received")).integer(0, kMostTime));
  out.sent = TRY(TRY(at.at("sent")).integer(0, kMostTime));
  out.is_last = TRY(TRY(at.at("last")).boolean());
  out.dropped = static_cast<std::uint64_t>(TRY(TRY(at.at("dropped")).integer(0, kMostTime)));
  if (auto clock = TRY(at.find("clock"))) out.clock = TRY(clock->string());
  if (auto names = TRY(at.find("names"))) out.names = TRY(names->strings());
  if (out.names.size() > kMostNames) return invalid(fmt::format("more than {} names", kMostNames));
  for (const std::string& each : out.names) {
    if (each.size() > kMostText) return invalid(fmt::format("a name has more than {} bytes", kMostText));
  }
  std::string_view bytes = text.substr(end + 1);
  if (bytes.size() % sizeof(TimelineEvent) != 0) return invalid("the events have a wrong length");
  while (!bytes.empty()) out.events.push_back(TRY(take_event(bytes)));
  return out;
}

}  // namespace nacre::timeline
