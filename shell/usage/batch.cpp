// SPDX-License-Identifier: Apache-2.0
#include "usage/batch.hpp"

#include "base/json.hpp"

namespace nacre::usage {

std::string UsageBatch::text() const {
  Json out{{"rows", Json::array()}};
  for (const TaskRow& each : rows) out["rows"].push_back(each.wire());
  if (node) out["node"] = node->wire();
  if (totals) out["totals"] = totals->wire();
  return dump_json(out);
}

Result<UsageBatch> UsageBatch::parse(std::string_view text) {
  Json json = TRY(parse_json(text));
  JsonAt at = JsonAt::root(json);
  UsageBatch out;
  for (const JsonAt& each : TRY(TRY(at.at("rows")).elements()))
    out.rows.push_back(TRY(TaskRow::parse(each.json())));
  if (auto node = TRY(at.find("node"))) out.node = TRY(NodeRow::parse(node->json()));
  if (auto totals = TRY(at.find("totals"))) out.totals = TRY(Totals::parse(totals->json()));
  return out;
}

}  // namespace nacre::usage
