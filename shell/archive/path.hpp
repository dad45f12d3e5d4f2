// SPDX-License-Identifier: Apache-2.0
//
// Which names an archive may have in it, so that all that is extracted stays below one directory.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace nacre::archive {

inline constexpr std::size_t kMaxPath =
    4095;  // bytes of an entry's path, and of a link's target; PATH_MAX less NUL

// `path` without empty parts and "." parts: "./a//b/" is "a/b"; "" is the directory itself. An error if it is
// absolute, has a ".." part, or is longer than kMaxPath.
Result<std::string> clean_path(std::string_view path);

// An error unless a symbolic link at `path` (in the form of clean_path()) with this target stays below the
// directory, whatever other such links there are. So ".." parts are allowed only at the target's start, where they
// lead up from real directories, and not more of them than `path` has directories: after another name, which may be
// a link itself, they could lead anywhere.
Result<void> check_symlink(std::string_view path, std::string_view target);

// `text` for display: control bytes and backslashes are escaped, so that a name is one line and cannot control the
// terminal.
[[nodiscard]] std::string shown(std::string_view text);

// The error of a system call on `path`; "" is the directory itself.
[[nodiscard]] Error failed(int code, std::string_view path);

}  // namespace nacre::archive
