// SPDX-License-Identifier: Apache-2.0
#include "elastic/restart_message.hpp"

#include "base/json.hpp"

namespace nacre::elastic {
namespace {

Json json_of(const RestartMessage& message) {
  Json ends = Json::array();
  for (const RestartEnd& each : message.ends)
    ends.push_back({each.rank, each.attempt, each.record.str(), each.ran});
  Json out{{"shell", message.shell}, {"whole", message.whole}, {"ends", std::move(ends)}};
  if (message.ordered) out["ordered"] = true;
  if (message.origin) out["origin"] = exits::name_of(*message.origin);
  if (!message.doubt.empty()) out["doubt"] = message.doubt;
  return out;
}

}  // namespace

std::string RestartMessage::asked() const { return dump_json(json_of(*this)); }

std::string RestartMessage::answered() const {
  Json out = json_of(*this);
  if (ends.empty())
    out["restarts"] = restarts;
  else
    out["why"] = why_not;
  return dump_json(out);
}

Result<RestartMessage> RestartMessage::parse(std::string_view bytes, std::uint32_t shells) {
  Json json = TRY(parse_json(bytes));
  JsonAt message = JsonAt::root(json);
  RestartMessage out;
  out.shell = static_cast<std::uint32_t>(TRY(TRY(message.at("shell")).integer(0, std::int64_t{shells} - 1)));
  out.whole = TRY(TRY(message.at("whole")).boolean());
  if (auto why = TRY(message.find("why"))) out.why_not = TRY(why->string());
  for (const JsonAt& each : TRY(TRY(message.at("ends")).elements())) {
    auto parts = TRY(each.elements());
    if (parts.size() != 4) return each.expected("four elements");
    out.ends.push_back({static_cast<value::Idset::Id>(TRY(parts[0].integer(0, value::Idset::kMaxId))),
                        static_cast<std::uint32_t>(TRY(parts[1].integer(1, UINT32_MAX - 1))),
                        TRY(exits::Record::parse(TRY(parts[2].string()))), TRY(parts[3].number())});
    if (!out.ends.back().record.status()) return each.expected("a task that has ended");
  }
  if (auto ordered = TRY(message.find("ordered"))) out.ordered = TRY(ordered->boolean());
  if (auto origin = TRY(message.find("origin"))) out.origin = exits::origin_named(TRY(origin->string()));
  if (auto doubt = TRY(message.find("doubt"))) out.doubt = TRY(doubt->string());
  if (auto restarts = TRY(message.find("restarts")))
    out.restarts = static_cast<std::uint64_t>(TRY(restarts->integer(0, INT64_MAX)));
  if (out.ends.empty() && !(out.whole && out.ordered)) return message.expected("an end of a task");
  return out;
}

std::string SpareRequest::text() const {
  Json list = Json::array();
  for (const auto& [rank, attempt] : starts) list.push_back({rank, attempt});
  return dump_json({{"shell", shell}, {"together", together}, {"starts", std::move(list)}});
}

Result<SpareRequest> SpareRequest::parse(std::string_view bytes, std::uint32_t shells, std::uint64_t tasks) {
  Json json = TRY(parse_json(bytes));
  JsonAt what = JsonAt::root(json);
  SpareRequest out;
  out.shell = static_cast<std::uint32_t>(TRY(TRY(what.at("shell")).integer(0, std::int64_t{shells} - 1)));
  out.together = TRY(TRY(what.at("together")).boolean());
  const auto last = static_cast<std::int64_t>(tasks) - 1;
  for (const JsonAt& each : TRY(TRY(what.at("starts")).elements())) {
    auto parts = TRY(each.elements());
    if (parts.size() != 2) return each.expected("[RANK, START]");
    out.starts.emplace_back(static_cast<value::Idset::Id>(TRY(parts[0].integer(0, last))),
                            static_cast<std::uint32_t>(TRY(parts[1].integer(1, UINT32_MAX - 1))));
  }
  if (out.starts.empty()) return what.expected("at least one start");
  return out;
}

bool RestartDecision::takes_in(const RestartDecision& next) const {
  return next.record == record && next.attempt == attempt && next.delay == delay && next.why_not == why_not;
}

}  // namespace nacre::elastic
