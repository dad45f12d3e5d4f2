// SPDX-License-Identifier: Apache-2.0
#include "value/template.hpp"

#include "base/text.hpp"

namespace nacre::value {
namespace {

constexpr std::string_view kOpen = "{{";
constexpr std::string_view kClose = "}}";

struct Tag {
  std::size_t begin;  // of its "{{"
  std::size_t end;    // after its "}}"
  std::string_view name;
};

std::optional<Tag> next_tag(std::string_view text, std::size_t from) {
  for (;;) {
    std::size_t close = text.find(kClose, from);
    if (close == std::string_view::npos) return std::nullopt;
    std::string_view before = text.substr(from, close - from);
    std::size_t open = before.rfind(kOpen);
    std::size_t end = close + kClose.size();
    if (open != std::string_view::npos) {
      std::string_view name = trim(before.substr(open + kOpen.size()));
      if (!name.empty()) return Tag{from + open, end, name};
    }
    from = end;
  }
}

}  // namespace

bool has_tags(std::string_view text) { return next_tag(text, 0).has_value(); }

Result<std::string> render(std::string_view text, const TagLookup& lookup) {
  std::string out;
  auto add = [&out](std::string_view piece) {
    bool fits = piece.size() <= kMaxRendered - out.size();
    if (fits) out += piece;
    return fits;
  };
  Error too_long = invalid(fmt::format("template: the rendered text is longer than {} bytes", kMaxRendered));
  std::size_t done = 0;
  while (auto tag = next_tag(text, done)) {
    std::string_view whole = text.substr(tag->begin, tag->end - tag->begin);
    auto value = lookup(tag->name);
    if (!value) return in(fmt::format("{{{{{}}}}}", tag->name), std::move(value).error());
    if (!add(text.substr(done, tag->begin - done)) || !add(*value ? std::string_view(**value) : whole))
      return too_long;
    done = tag->end;
  }
  if (!add(text.substr(done))) return too_long;
  return out;
}

}  // namespace nacre::value
