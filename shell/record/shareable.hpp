// SPDX-License-Identifier: Apache-2.0
//
// What of a job may be shown to others than its user, as in a bundle for a ticket (nacre-report(1), BUNDLES):
// values of environment variables by a list of names, and never what looks like a secret. Pure.
#pragma once

#include "base/json_fwd.hpp"
#include "base/usual.hpp"

namespace nacre::record {

// Stands for a value that is left out.
inline constexpr std::string_view kLeftOut = "(left out)";
inline constexpr std::size_t kMaxShownValue = std::size_t{4} << 10;  // bytes of a variable's value

// The names of variables whose values may be shown; one with a `*` at its end is the beginning of names.
[[nodiscard]] std::span<const std::string_view> shown_names();
// The words that make a name a secret's, wherever they are in it; in upper case.
[[nodiscard]] std::span<const std::string_view> secret_words();

// Whether a name has one of these words in it, in upper or lower case, or has "pass" or "pwd" as one of its parts.
[[nodiscard]] bool is_secret_name(std::string_view name);
// Whether the value of a variable may be shown: it is short enough, its name is listed and no secret's, and the
// value has no URL with a password, no private key, no token of a known kind, and no secret's name with '=' behind
// it.
[[nodiscard]] bool may_show(std::string_view name, std::string_view value);

// Leaves out of a command line what text_without_secrets() leaves out, and values of secret options that are words
// of their own.
[[nodiscard]] std::vector<std::string> words_without_secrets(const std::vector<std::string>& words);
// The same for a value of JSON, such as options: texts, arrays of words, members with a secret's name.
[[nodiscard]] Json json_without_secrets(const Json& value);
// Leaves out of a text: users with a password in URLs, and tokens in their place; private keys; JSON web tokens,
// and tokens of services that begin in a published way; what follows a secret's name and '=' or ':'; in command
// lines the value of an option with a secret's name, and of options known to have a password ("mysql -pX", "curl -u
// USER:X"). Other text may be left out by mistake.
[[nodiscard]] std::string text_without_secrets(std::string_view text);

}  // namespace nacre::record
