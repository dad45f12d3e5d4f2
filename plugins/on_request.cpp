// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include "base/json.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "capi/loader.hpp"
#include "plugins/builtins.hpp"
#include "plugins/pmi/options.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kPmix = "pmi/pmix.so";  // below a directory of the searchpath, as it is not for every job
constexpr const char* kWithPmix = "simple,pmi2,pmix";

// Open MPI's libraries, also of Fortran and of OpenSHMEM, those that Debian builds for it, and PMIx itself. MPICH's
// libmpi.so has another number.
bool is_of_pmix(std::string_view library) {
  bool open_mpi = library.starts_with("libmpi") && library.find(".so.40") != std::string_view::npos;
  return open_mpi || library.starts_with("liboshmem.so") || library.starts_with("libpmix.so") ||
         library.find("-openmpi.so") != std::string_view::npos;
}

// The beginning of a file; "" if it cannot be read.
std::string beginning_of(const std::string& path) {
  constexpr std::size_t kBeginning = std::size_t{64} << 10;
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  std::string text(kBeginning, '\0');
  const ssize_t got = file ? ::pread(file.get(), text.data(), text.size(), 0) : -1;
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

// Looks through the commands of a job for a program of Open MPI: the program itself, what a wrapper such as
// numactl(1) or env(1) has among its words, what `sh -c` has in its text, what a script names by a path, and Python
// that uses mpi4py, which loads its library of MPI later.
class OpenMpiSearch {
 public:
  explicit OpenMpiSearch(plugin::Host& host)
      : front_(host.job().spec.cwd ? *host.job().spec.cwd + "/" : ""),
        path_(host.environment().get("PATH").value_or("")) {}

  bool finds(const std::vector<std::string>& command) {
    return std::any_of(command.begin(), command.end(), [&](const std::string& word) {
      if (word.find(kMpi4py) != std::string::npos) return true;  // -m mpi4py ..., -c "import mpi4py"
      return word.find_first_of(" \t\n") == std::string::npos ? is_word(word) : is_text(word);
    });
  }

 private:
  static constexpr std::string_view kMpi4py = "mpi4py";
  static constexpr int kMostFiles = 32;

  // A word of the command: a file, from the job's directory on, or one that is found by PATH.
  bool is_word(const std::string& word) {
    if (word.empty() || word.starts_with('-')) return false;
    if (is_file(placed(word), true)) return true;
    if (word.find('/') != std::string::npos) return false;
    for (std::string_view directory : split(path_, ':')) {
      const std::string file = placed(fmt::format("{}/{}", directory.empty() ? "." : directory, word));
      if (::access(file.c_str(), X_OK) == 0) return is_file(file, true);
    }
    return false;
  }

  // Commands for a shell: only words with a slash are looked at.
  bool is_text(std::string_view text) {
    constexpr std::string_view kBetween = " \t\r\n;&|()<>\"'`=";
    for (std::size_t from = 0; (from = text.find_first_not_of(kBetween, from)) != std::string_view::npos;) {
      const std::size_t to = std::min(text.find_first_of(kBetween, from), text.size());
      const std::string_view word = text.substr(from, to - from);
      if (word.find('/') != std::string_view::npos && is_file(placed(word), false)) return true;
      from = to;
    }
    return false;
  }

  bool is_file(const std::string& path, bool reads_scripts) {
    std::error_code ignored;
    if (++files_ > kMostFiles || !std::filesystem::is_regular_file(path, ignored)) return false;
    const std::vector<std::string> libraries = capi::needed_libraries(path);
    if (!libraries.empty()) return std::any_of(libraries.begin(), libraries.end(), is_of_pmix);
    const std::string text = beginning_of(path);
    if (text.starts_with("\177ELF")) return false;
    return text.find(kMpi4py) != std::string::npos || (reads_scripts && text.starts_with("#!") && is_text(text));
  }

  [[nodiscard]] std::string placed(std::string_view file) const {
    return (file.starts_with('/') ? "" : front_) + std::string(file);
  }

  std::string front_, path_;
  int files_ = 0;
};

// Of an entry of the option multi-prog.
Result<std::vector<std::string>> command_of(const Json& entry) {
  return TRY(JsonAt::root(entry).at("command")).strings();
}

// Without a PMIx server a program of Open MPI 5 is a job of its own in each task.
bool needs_pmix(plugin::Host& host) {
  if (!capi::find_objects(kPmix, host.plugin_searchpath())) return false;
  OpenMpiSearch search(host);
  if (search.finds(host.job().spec.command)) return true;
  const Json* programs = host.options().find("multi-prog");
  if (programs == nullptr || !programs->is_array()) return false;
  return std::any_of(programs->begin(), programs->end(), [&](const Json& each) {
    auto command = command_of(each);
    return command && search.finds(*command);
  });
}

}  // namespace

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
