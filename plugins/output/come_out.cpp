// SPDX-License-Identifier: Apache-2.0
#include "plugins/output/come_out.hpp"

namespace nacre::plugins {

void OutputComeOut::complete(const value::Idset& ranks) {
  if (places_.flushed())
    ranks_ = ranks_ | ranks;
  else
    waiting_.push_back({ranks, places_.marks()});
}

Result<void> OutputComeOut::reopen(std::string_view ranks) {
  value::Idset again = TRY(value::Idset::parse(ranks));
  ranks_ = ranks_ - again;
  for (Waiting& each : waiting_) each.ranks = each.ranks - again;
  return {};
}

const value::Idset& OutputComeOut::ranks() {
  std::erase_if(waiting_, [this](const Waiting& each) {
    bool has_passed = OutputRouting::has_passed(each.marks);
    if (has_passed) ranks_ = ranks_ | each.ranks;
    return has_passed;
  });
  return ranks_;
}

}  // namespace nacre::plugins
