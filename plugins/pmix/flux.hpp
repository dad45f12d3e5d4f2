// SPDX-License-Identifier: Apache-2.0
//
// Includes the shell's C API, libpmix's and what the standard library has, for all files of this plugin.
#pragma once

#ifndef FLUX_SHELL_PLUGIN_NAME
#define FLUX_SHELL_PLUGIN_NAME "pmix"
#endif
#include <flux/shell.h>
#include <pmix.h>
#include <pmix_server.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nacre::pmix {

inline pmix_proc_t proc_of(const std::string& nspace, pmix_rank_t rank) {
  pmix_proc_t proc{};
  nspace.copy(proc.nspace, PMIX_MAX_NSLEN);
  proc.rank = rank;
  return proc;
}

// Reports to libpmix that an operation has ended.
struct OperationReply {
  pmix_op_cbfunc_t function = nullptr;
  void* data = nullptr;
  void operator()(pmix_status_t status) const {
    if (function != nullptr) function(status, data);
  }
};

struct ModexReply {
  pmix_modex_cbfunc_t function = nullptr;
  void* data = nullptr;
  void operator()(pmix_status_t status, const std::string& bytes = {}) const;  // libpmix gets a copy
};

struct InfoReply {
  pmix_info_cbfunc_t function = nullptr;
  void* data = nullptr;
};

}  // namespace nacre::pmix
