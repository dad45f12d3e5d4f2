// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include "base/text.hpp"
#include "capi/loader.hpp"
#include "plugins/builtins.hpp"
#include "plugins/pmi/options.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kPmix = "pmi/pmix.so";  // below a directory of the searchpath, as it is not for every job
constexpr const char* kWithPmix = "simple,pmi2,pmix";

// The file that a task will execute; "" if there is none. Relative to the job's directory, as for execvp(3) in a
// task.
std::string program_of(const plugin::Host& host, std::string_view path) {
  const job::Jobspec& spec = host.job().spec;
  if (spec.command.empty()) return "";
  std::string front = spec.cwd ? *spec.cwd + "/" : "";
  auto place = [&](const std::string& file) { return file.starts_with('/') ? file : front + file; };
  const std::string& name = spec.command.front();
  if (name.find('/') != std::string::npos) return place(name);
  for (std::string_view directory : split(path, ':')) {
    std::string file = place(fmt::format("{}/{}", directory.empty() ? "." : directory, name));
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

// Open MPI's libraries, also of Fortran and of OpenSHMEM, those that Debian builds for it, and PMIx itself. MPICH's
// libmpi.so has another number.
bool is_of_pmix(std::string_view library) {
  bool open_mpi = library.starts_with("libmpi") && library.find(".so.40") != std::string_view::npos;
  return open_mpi || library.starts_with("liboshmem.so") || library.starts_with("libpmix.so") ||
         library.find("-openmpi.so") != std::string_view::npos;
}

bool is_of_mpich(std::string_view library) {
  const bool has_number = library.starts_with("libmpi") && library.find(".so.12") != std::string_view::npos;
  return has_number || library.starts_with("libmpich");
}

// A Python program that uses MPI, as the beginning of its file or its module's name shows: the interpreter itself
// needs no library of MPI, and may load one of either MPI later.
bool is_of_mpi4py(const plugin::Host& host, std::string_view program) {
  constexpr std::string_view kPackage = "mpi4py";
  constexpr std::size_t kBeginning = std::size_t{64} << 10;
  if (!program.substr(program.rfind('/') + 1).starts_with("python")) return false;
  const job::Jobspec& spec = host.job().spec;
  for (std::size_t at = 1; at < spec.command.size(); ++at) {
    const std::string& word = spec.command[at];
    if (word.find(kPackage) != std::string::npos) return true;  // -m mpi4py ..., -c "import mpi4py"
    if (word.starts_with('-')) continue;
    const UniqueFd file(::open((word.starts_with('/') || !spec.cwd ? word : *spec.cwd + "/" + word).c_str(),
                               O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    std::string text(kBeginning, '\0');
    const ssize_t got = file ? ::pread(file.get(), text.data(), text.size(), 0) : -1;
    if (got >= 0)
      return std::string_view(text).substr(0, static_cast<std::size_t>(got)).find(kPackage) != std::string::npos;
  }
  return false;
}

// Whether the job's program is one of mpi4py, or needs such a library.
bool is_linked_with(plugin::Host& host, bool (*is_meant)(std::string_view library)) {
  std::string program = program_of(host, host.environment().get("PATH").value_or(""));
  if (program.empty()) return false;
  if (is_of_mpi4py(host, program)) return true;
  std::vector<std::string> libraries = capi::needed_libraries(program);
  return std::any_of(libraries.begin(), libraries.end(), is_meant);
}

// Without a PMIx server a program of Open MPI is a job of its own in each task.
bool needs_pmix(plugin::Host& host) {
  return capi::find_objects(kPmix, host.plugin_searchpath()) && is_linked_with(host, is_of_pmix);
}

}  // namespace

bool is_of_mpi(plugin::Host& host) {
  if (host.stack().find("pmix") != nullptr) return true;
  return is_linked_with(host, [](std::string_view library) { return is_of_pmix(library) || is_of_mpich(library); });
}

Result<void> load_on_request(plugin::Host& host) {
  auto options = PmiOptions::read(host.options());
  // The plugin `pmi` reports what is wrong with the option.
  if (!options || host.stack().find("pmix") != nullptr) return {};
  if (!options->chosen && needs_pmix(host)) {
    bool has_more = host.options().find("pmi") != nullptr;
    host.options().set(has_more ? "pmi.use" : "pmi", kWithPmix);
    options->pmix = true;
  }
  if (!options->pmix) return {};
  auto loaded = capi::load(host, kPmix, Json::object());
  if (!loaded) return in("pmi=pmix", Error(loaded.error()));
  return {};
}

}  // namespace nacre::plugins
