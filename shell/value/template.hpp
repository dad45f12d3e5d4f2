// SPDX-License-Identifier: Apache-2.0
//
// Text with {{tags}}, as flux-submit(1) "MUSTACHE TEMPLATES" has them. A tag that the lookup does not know stays as
// it is, as the field does; an unclosed "{{" is plain text. A tag is the shortest piece from "{{" to "}}", so
// "{{{id}}}" is the tag id in plain braces; a tag without a name is plain text. None of mustache's sections,
// comments, partials or escapes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace nacre::value {

using TagLookup = std::function<Result<std::optional<std::string>>(std::string_view tag)>;

inline constexpr std::size_t kMaxRendered = std::size_t{1} << 20;  // bytes; more is an error

[[nodiscard]] bool has_tags(std::string_view text);

// `text` with each {{tag}} (blanks around the name dropped) replaced by its value. Values are not rendered again.
// An error of the lookup is returned with the tag as its context.
Result<std::string> render(std::string_view text, const TagLookup& lookup);

}  // namespace nacre::value
