// SPDX-License-Identifier: Apache-2.0
#include "group/first_words.hpp"

#include "wire/json.hpp"

namespace nacre::group {
namespace {

constexpr std::size_t kMaxWords = 4096;   // bytes
constexpr std::size_t kMaxVersion = 256;  // bytes

constexpr wire::Between kSmall{0, UINT32_MAX - 1};

}  // namespace

// Members that a later version may add are ignored.
void fields(auto& io, wire::Of<FirstWords> auto& m) {
  io.has("nacre", m.version);
  io.require(m.version.size() <= kMaxVersion, [] { return "first words: the version is too long"; });
  io.has("protocol", m.protocol, kSmall);
  io.has("from", m.from, kSmall);
  io.has("to", m.to, kSmall);
}

std::string FirstWords::text() const { return wire::to_text(*this); }

Result<FirstWords> FirstWords::parse(std::string_view frame) {
  if (frame.size() > kMaxWords) return Error{EMSGSIZE, "first words: too long"};
  Json json = TRY(in("first words", parse_json(frame)));
  return wire::from_json<FirstWords>(JsonAt::root(json, "first words"));
}

}  // namespace nacre::group
