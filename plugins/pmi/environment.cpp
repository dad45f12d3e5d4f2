// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/environment.hpp"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/installed.hpp"
#include "base/nearest.hpp"
#include "base/text.hpp"
#include "version.hpp"

namespace nacre::plugins {

void name_library(job::Environment& environment, bool is_first) {
  const InstalledTree installed(kProgramDirectory);
  std::string path = installed.path({kPmiLibraryOfBuild, kPmiLibraryFromHere}, kPmiLibrary);
  if (::access(path.c_str(), R_OK) != 0) return;
  environment.set("FLUX_PMI_LIBRARY_PATH", path);
  if (!is_first) return;
  std::string_view before = environment.get("LD_LIBRARY_PATH").value_or("");
  environment.set("LD_LIBRARY_PATH",
                  fmt::format("{}{}{}", path.substr(0, path.rfind('/')), before.empty() ? "" : ":", before));
}

void separate_segments(plugin::Host& host) {
  const job::Job& job = host.job();
  // Made-up nodes have other names, and are on this host, too.
  const bool is_pretended = host.options().find("pretend") != nullptr;
  auto here = std::count_if(job.resources.nodes.begin(), job.resources.nodes.end(),
                            [&](const auto& each) { return is_pretended || each.hostname == job.node().hostname; });
  auto directory = host.environment().get("FLUX_JOB_TMPDIR");
  if (here < 2 || !directory) return;
  const std::string own(*directory);
  // The transport is called vader up to version 4, sm from 5 on.
  for (const char* name : {"OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_btl_sm_backing_directory"}) {
    if (!host.environment().get(name)) host.environment().set(name, own);
  }
}

void let_yield(plugin::Host& host, task::Command& command) {
  constexpr const char* kYield = "OMPI_MCA_mpi_yield_when_idle";
  const bool shares = host.tasks().size() > host.job().node().cores.size();
  if (shares && !command.env.get(kYield)) command.env.set(kYield, "1");
}

// "cray-pals" may be that of a file cray_pals.so, whose plugin may be pmi-cray-pals.
void warn_of_unknown(plugin::Host& host, const plugin::Plugin& plugin, const std::vector<std::string>& names) {
  const std::vector<std::string> kNames{"simple", "pmi1", "pmi2", "pmix", "off", "none"};
  for (const std::string& each : names) {
    std::string file = each;
    std::replace(file.begin(), file.end(), '-', '_');
    const plugin::Stack& stack = host.stack();
    bool is_there =
        stack.find(each) != nullptr || stack.find(file) != nullptr || stack.find("pmi-" + each) != nullptr;
    if (is_there || host.job().shell_rank != 0) continue;
    log(host, plugin, Level::warn,
        "pmi: there is no plugin {}, and tasks do without it; nacre has simple, pmi2 and pmix{}", in_quotes(each),
        did_you_mean(each, kNames));
  }
}

}  // namespace nacre::plugins
