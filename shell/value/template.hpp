// SPDX-License-Identifier: Apache-2.0
//
// Text with {{tags}}, as in flux-submit(1) "MUSTACHE TEMPLATES". As there, a tag that the lookup does not know
// stays unchanged; an unclosed "{{" is plain text. A tag is the shortest piece from "{{" to "}}", so "{{{id}}}" is
// the tag id in plain braces; a tag without a name is plain text. Mustache's sections, comments, partials and
// escapes do not exist here.
#pragma once

#include "base/result.hpp"

namespace nacre::value {

using TagLookup = std::function<Result<std::optional<std::string>>(std::string_view tag)>;

inline constexpr std::size_t kMaxRendered = std::size_t{1} << 20;  // bytes; more is an error

[[nodiscard]] bool has_tags(std::string_view text);

// Replaces each {{tag}} of `text` (without the blanks around the name) by its value. Values are not rendered again.
// If the lookup fails its error is returned with the tag as its context.
Result<std::string> render(std::string_view text, const TagLookup& lookup);

}  // namespace nacre::value
