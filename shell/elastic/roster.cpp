// SPDX-License-Identifier: Apache-2.0
#include "elastic/roster.hpp"

#include <utility>

namespace nacre::elastic {

value::Idset Roster::note_joining(const Idset& come, const Idset& missing) {
  lost_.insert(missing);
  Idset here = come - gone();
  joining_.insert(here);
  return here;
}

Json Roster::json() const {
  return {{"lost", lost_.str()}, {"left", left_.str()}, {"leaving", leaving_.str()}, {"joining", joining_.str()}};
}

Result<void> Roster::add(const JsonAt& at) {
  for (auto [name, into] : {std::pair("lost", &lost_), std::pair("left", &left_), std::pair("leaving", &leaving_),
                            std::pair("joining", &joining_)}) {
    JsonAt ids = TRY(at.at(name));
    into->insert(TRY(in(ids.path(), Idset::parse(TRY(ids.string())))));
  }
  return {};
}

}  // namespace nacre::elastic
