// SPDX-License-Identifier: Apache-2.0
//
// Whose output has come out. For those who report how tasks have ended: output first.
#pragma once

#include "base/json.hpp"
#include "plugin/host.hpp"
#include "plugin/stack.hpp"

namespace nacre::plugin {

// Of these tasks, which have ended and failed, those whose output has come out: their streams have ended, and nothing of them waits in
// the shells. The leader's alone; of the plugin `output`, by its topic output.left (in, out: {"ranks": idset}). All of them where no
// plugin answers.
inline value::Idset output_left(Host& host, const value::Idset& ranks) {
  Call call("output.left");
  call.in["ranks"] = ranks.str();
  Result<int> called = host.stack().call(call);
  if (!called || !call.out.contains("ranks") || !call.out["ranks"].is_string()) return ranks;
  auto left = value::Idset::parse(call.out["ranks"].get<std::string>());
  return left ? *left & ranks : ranks;
}

}  // namespace nacre::plugin
