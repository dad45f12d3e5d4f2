// SPDX-License-Identifier: Apache-2.0
#include "broker/content.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <deque>

#include <fmt/format.h>

#include "base/text.hpp"
#include "broker/kvs.hpp"

namespace nacre::broker {
namespace {

constexpr double kPatience = 60;      // seconds for the connection, and for an archive's files
constexpr double kLook = 0.1;         // seconds between two questions whether to go on
constexpr std::size_t kUnderWay = 8;  // requests

struct Hash {
  std::string_view prefix;
  std::size_t bytes;
};
constexpr std::array kHashes{Hash{"sha1-", 20}, Hash{"sha256-", 32}};

}  // namespace

Result<std::string> hash_of(std::string_view blobref) {
  const auto wrong = [&] {
    return invalid(fmt::format("expected sha1-HEX or sha256-HEX, got {}", in_quotes(blobref)));
  };
  const auto* hash = std::find_if(kHashes.begin(), kHashes.end(),
                                  [&](const Hash& each) { return blobref.starts_with(each.prefix); });
  if (hash == kHashes.end()) return wrong();
  const std::string_view digits = blobref.substr(hash->prefix.size());
  if (digits.size() != 2 * hash->bytes) return wrong();
  std::string out;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    unsigned char byte = 0;
    const char* end = digits.data() + i + 2;
    if (std::from_chars(digits.data() + i, end, byte, 16).ptr != end) return wrong();
    out += static_cast<char>(byte);
  }
  return out;
}

Result<ContentStore> ContentStore::connect(std::string_view uri) {
  return ContentStore(TRY(Broker::connect(uri, kPatience)));
}

Result<std::optional<Json>> ContentStore::archive(const std::string& name) {
  const std::string key = "archive." + name;
  auto found = broker_->ask("kvs.lookup", {{"key", key}, {"namespace", "primary"}, {"flags", 0}});
  if (!found && found.error().code == ENOENT) return std::optional<Json>();
  CHECK_OK(found);
  const std::string text = TRY(in(key, bytes_of(TRY(JsonAt::root(*found).at("val")).json())));
  return std::optional<Json>(TRY(in(key, parse_json(text))));
}

Result<void> ContentStore::load(const std::vector<std::string>& blobrefs, const Take& take,
                                const std::function<bool()>& goes_on) {
  std::deque<Broker::Asked> asked;
  std::size_t next = 0;
  for (std::size_t index = 0; index < blobrefs.size(); ++index) {
    for (; next < blobrefs.size() && asked.size() < kUnderWay; ++next)
      asked.push_back(broker_->begin_raw("content.load", TRY(hash_of(blobrefs[next]))));
    std::optional<std::string> bytes;
    while (!bytes) {
      if (goes_on && !goes_on()) return Error{ECANCELED, "interrupted"};
      bytes = TRY(in(blobrefs[index], broker_->raw_answer(asked.front(), kLook)));
    }
    asked.pop_front();
    CHECK_OK(take(index, *bytes));
  }
  return {};
}

}  // namespace nacre::broker
