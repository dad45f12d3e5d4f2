// SPDX-License-Identifier: Apache-2.0
//
// nacre version; see nacre(1).

#include "archive/library.hpp"
#include "base/print.hpp"
#include "cli/command_line.hpp"
#include "cli/verbs.hpp"
#include "version.hpp"

namespace nacre::cli {
namespace {

constexpr std::string_view kCommit = NACRE_COMMIT;  // empty: the source was no clone

// What is loaded by who needs it: doc/building.md has the same table.
struct Loaded {
  const char* soname;
  const char* package;  // Debian's
  const char* what;     // it is needed for

  // Whether this build can use it: kFeatures has "-libdw" if not.
  [[nodiscard]] bool is_built() const {
    const std::string_view name = soname;
    return std::string_view(kFeatures).find(fmt::format("-{}", name.substr(0, name.find('.')))) ==
           std::string_view::npos;
  }
};
constexpr std::array kLoaded{
    Loaded{"libssl.so.3", "libssl3", "links between hosts"},
    Loaded{"libhwloc.so.15", "libhwloc15", "affinity by caches, NUMA nodes and devices"},
    Loaded{"libpmix.so.2", "libpmix2", "PMIx: pmi=pmix, and to start below PRRTE"},
    Loaded{"libarchive.so.13", "libarchive13", "archives and stage-in"},
    Loaded{"libzstd.so.1", "libzstd1", "archives compressed by zstd"},
    Loaded{"libncursesw.so.6", "libncursesw6", "nacre top on a terminal"},
    Loaded{"libdw.so.1", "libdw1", "the place of a crash, from a core file"},
};

class Version final : public Verb {
 public:
  void add_to(CommandLine& /*verb*/) override {}

  Result<int> run() override {
    print_out(fmt::format("nacre {}{}\n", kVersion, !kCommit.empty() ? fmt::format(", commit {}", kCommit) : ""));
    print_out(fmt::format("built with {}\n", kBuiltWith));
    for (const Loaded& each : kLoaded) {
      const bool is_there = each.is_built() && archive::DynamicLibrary::load(each.soname, each.package).has_value();
      std::string what;
      if (!each.is_built())
        what = " (this nacre was built without)";
      else if (!is_there)
        what = fmt::format(" (missing: Debian's package {})", each.package);
      print_out(fmt::format("{:<4}{:<18}{}{}\n", is_there ? "yes" : "no", each.soname, each.what, what));
    }
    return 0;
  }
};

}  // namespace

VerbPtr make_version() { return std::make_unique<Version>(); }

}  // namespace nacre::cli
