// SPDX-License-Identifier: Apache-2.0
#include "elastic/replacement.hpp"

#include "base/json.hpp"

namespace nacre::elastic {
namespace {

Result<Replacement::All> parse_all(const JsonAt& at) {
  Replacement::All out;
  out.restarts = static_cast<std::uint64_t>(TRY(TRY(at.at("restarts")).integer(0, INT64_MAX)));
  out.ran = TRY(TRY(at.at("ran")).number());
  if (auto delay = TRY(at.find("delay"))) out.delay = TRY(delay->number());
  return out;
}

}  // namespace

value::Idset Replacement::ranks() const {
  value::Idset out;
  for (const job::Move& each : moves) out.insert(each.ranks);
  return out;
}

std::string Replacement::text() const {
  Json list = Json::array();
  for (const job::Move& each : moves)
    list.push_back({{"to", each.to}, {"ranks", each.ranks.str()}, {"try", each.attempt}});
  Json out{{"from", from()}, {"moves", std::move(list)}};
  if (all) {
    out["all"] = {{"restarts", all->restarts}, {"ran", all->ran}};
    if (all->delay) out["all"]["delay"] = *all->delay;
  }
  return dump_json(out);
}

Result<Replacement> Replacement::parse(std::string_view text, std::uint32_t shells, std::uint64_t tasks) {
  Json json = TRY(parse_json(text));
  JsonAt what = JsonAt::root(json);
  const std::int64_t last = std::int64_t{shells} - 1;
  auto from = static_cast<std::uint32_t>(TRY(TRY(what.at("from")).integer(0, last)));
  Replacement out;
  for (const JsonAt& each : TRY(TRY(what.at("moves")).elements())) {
    auto ranks = TRY(value::Idset::parse(TRY(TRY(each.at("ranks")).string())));
    if (ranks.empty() || *ranks.last() >= tasks) return each.expected("ranks of the job");
    auto to = static_cast<std::uint32_t>(TRY(TRY(each.at("to")).integer(0, last)));  // see group/statements.cpp
    auto attempt = static_cast<std::uint32_t>(TRY(TRY(each.at("try")).integer(1, UINT32_MAX - 1)));
    out.moves.push_back({ranks, from, to, attempt});
  }
  if (out.moves.empty()) return what.expected("at least one move");
  if (auto all = TRY(what.find("all"))) out.all = TRY(parse_all(*all));
  return out;
}

}  // namespace nacre::elastic
