// SPDX-License-Identifier: Apache-2.0
#include "group/first_words.hpp"

#include "base/json.hpp"

namespace nacre::group {
namespace {

constexpr std::size_t kMaxWords = 4096;   // bytes
constexpr std::size_t kMaxVersion = 256;  // bytes

Result<std::uint32_t> small(const JsonAt& words, std::string_view key) {
  return static_cast<std::uint32_t>(TRY(TRY(words.at(key)).integer(0, UINT32_MAX - 1)));
}

}  // namespace

std::string FirstWords::text() const {
  return dump_json({{"nacre", version}, {"protocol", protocol}, {"from", from}, {"to", to}});
}

// Ignores members that a later version may add.
Result<FirstWords> FirstWords::parse(std::string_view frame) {
  if (frame.size() > kMaxWords) return Error{EMSGSIZE, "first words: too long"};
  Json json = TRY(in("first words", parse_json(frame)));
  JsonAt words = JsonAt::root(json, "first words");
  FirstWords out;
  out.version = TRY(TRY(words.at("nacre")).string());
  if (out.version.size() > kMaxVersion) return Error{EMSGSIZE, "first words: the version is too long"};
  out.protocol = TRY(small(words, "protocol"));
  out.from = TRY(small(words, "from"));
  out.to = TRY(small(words, "to"));
  return out;
}

}  // namespace nacre::group
