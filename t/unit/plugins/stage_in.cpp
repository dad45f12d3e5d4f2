// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "archive/create.hpp"
#include "fake_host.hpp"
#include "folder.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;
namespace fs = std::filesystem;

namespace {

// A folder with archives `main` (files a.dat, d/b.txt) and `more` (file c.dat) in "ar", the job's directory "tmp",
// and the plugin.
struct Staging {
  explicit Staging(std::uint32_t shell_rank = 0)
      : host(shell_rank == 0
                 ? std::make_unique<kit::FakeHost>(1)
                 : std::make_unique<kit::FakeHost>(kit::jobspec_of(2), kit::fake_nodes(2, 1), shell_rank)) {
    fs::create_directories(folder + "/from/d");
    fs::create_directory(folder + "/tmp");
    write("from/a.dat", "A");
    write("from/d/b.txt", "B");
    write("from/c.dat", "C");
    archive("main", {"a.dat", "d"});
    archive("more", {"c.dat"});
    host->environment().set("FLUX_JOB_TMPDIR", folder + "/tmp");
    host->environment().set("NACRE_ARCHIVE_DIR", folder + "/ar");
    host->stack().push(plugins::make_stage_in(*host));
  }

  void archive(const std::string& name, const std::vector<std::string>& paths) const {
    auto library = nacre::archive::Library::load();
    REQUIRE(library);
    nacre::archive::CreateOptions options;
    options.directory = folder + "/from";
    options.paths = paths;
    REQUIRE(nacre::archive::create(*library, nacre::archive::ArchiveStore(folder + "/ar"), name, options, {}));
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder + "/" + name, std::ios::binary) << text;
  }
  [[nodiscard]] std::string text(const std::string& name) const {
    std::ifstream in(folder + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  // The files in a directory, sorted; directories are left out.
  [[nodiscard]] std::vector<std::string> files(const std::string& name) const {
    std::vector<std::string> out;
    for (const auto& each : fs::recursive_directory_iterator(folder + "/" + name)) {
      if (!each.is_directory()) out.push_back(each.path().lexically_relative(folder + "/" + name));
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  // Does what the shell does up to the start of tasks; returns the error of a topic or of the staging, if any.
  std::string stage() {
    for (const char* topic : {"shell.init", "shell.post-init"}) {
      if (Result<int> called = host->call(topic); !called) return called.error().message;
    }
    REQUIRE(host->run_loop());
    CHECK(host->start_holds.empty());
    return host->deaths.empty() ? "" : host->deaths.front();
  }

  kit::TemporaryFolder own;
  std::string folder = own.path();
  std::unique_ptr<kit::FakeHost> host;
};

using Names = std::vector<std::string>;

const std::string kInit = "plugin 'stage-in': shell.init: ";

std::string option_error(const Json& value) {
  Staging staging;
  staging.host->options().set("stage-in", value);
  std::string error = staging.stage();
  CHECK(staging.files("tmp").empty());
  return error;
}

}  // namespace

TEST_CASE("without stage-in nothing is staged, and no thread or hold is made") {
  for (const Json& value : {Json(), Json(0), Json(false)}) {
    Staging staging;
    if (!value.is_null()) staging.host->options().set("stage-in", value);
    CHECK(staging.stage() == "");
    CHECK(staging.files("tmp").empty());
  }
}

TEST_CASE("stage-in alone extracts main to the job's directory") {
  Staging staging;
  staging.host->options().set("stage-in", 1);
  CHECK(staging.stage() == "");
  CHECK(staging.files("tmp") == Names{"a.dat", "d/b.txt"});
  CHECK(staging.text("tmp/d/b.txt") == "B");
  const Names& logged = staging.host->logged;
  REQUIRE(logged.size() == 4);
  CHECK(logged[1].starts_with("trace stage-in: drwx"));
  CHECK(logged[2].ends_with(" d/b.txt"));
  CHECK(logged[3] == fmt::format("debug stage-in: 3 entries with 2 bytes extracted to {}/tmp", staging.folder));
}

TEST_CASE("nothing is extracted before shell.post-init, so that a plan does not") {
  Staging staging;
  staging.host->options().set("stage-in", 1);
  REQUIRE(staging.host->call("shell.init"));
  REQUIRE(staging.host->run_loop());
  CHECK(staging.host->start_holds.empty());
  REQUIRE(staging.host->call("shell.exit"));
  CHECK(staging.files("tmp").empty());
}

TEST_CASE("the start of tasks is held until all is there") {
  Staging staging;
  staging.host->options().set("stage-in", 1);
  REQUIRE(staging.host->call("shell.init"));
  REQUIRE(staging.host->call("shell.post-init"));
  CHECK(staging.host->start_holds == std::map<std::string, int>{{"stage-in", 1}});
  REQUIRE(staging.host->run_loop());
  CHECK(staging.host->start_holds.empty());
}

TEST_CASE("stage-in.tags stands for stage-in.names") {
  Staging staging;
  staging.host->options().set("stage-in.tags", "more");
  CHECK(staging.stage() == "");
  CHECK(staging.files("tmp") == Names{"c.dat"});
}

TEST_CASE("stage-in.names wins over stage-in.tags") {
  Staging staging;
  staging.host->options().set("stage-in", {{"tags", "no-such"}, {"names", "more"}});
  CHECK(staging.stage() == "");
  CHECK(staging.files("tmp") == Names{"c.dat"});
}

TEST_CASE("the names are a list in text or an array; a number is the name of its digits") {
  for (const Json& names : {Json("main,more"), Json(" more , main"), Json({"more", "main"})}) {
    Staging staging;
    staging.host->options().set("stage-in.names", names);
    CHECK(staging.stage() == "");
    CHECK(staging.files("tmp") == Names{"a.dat", "c.dat", "d/b.txt"});
  }
  Staging staging;
  staging.archive("2024", {"c.dat"});
  staging.host->options().set("stage-in.names", 2024);
  CHECK(staging.stage() == "");
  CHECK(staging.files("tmp") == Names{"c.dat"});
}

TEST_CASE("a pattern picks from all archives, and it is enough if one has something") {
  for (const char* names : {"more,main", "main,more"}) {
    Staging staging;
    staging.host->options().set("stage-in.names", names);
    staging.host->options().set("stage-in.pattern", "*.txt");
    CHECK(staging.stage() == "");
    CHECK(staging.files("tmp") == Names{"d/b.txt"});
  }
  Staging none;
  none.host->options().set("stage-in.pattern", "*.nothing");
  CHECK(none.stage() == "1 stage-in: nothing in the archives matches '*.nothing'");
}

TEST_CASE("a destination is made where it is missing; relative ones are below the job's directory") {
  for (const std::string scope : {"", "local:", "global:"}) {
    Staging staging;
    staging.host->options().set("stage-in.destination", scope + staging.folder + "/x/y");
    CHECK(staging.stage() == "");
    CHECK(staging.files("x/y") == Names{"a.dat", "d/b.txt"});
    CHECK(staging.files("tmp").empty());
  }
  Staging relative;
  relative.host->mutable_job().spec.cwd = relative.folder;
  relative.host->options().set("stage-in.destination", "./z:1");
  CHECK(relative.stage() == "");
  CHECK(relative.files("z:1") == Names{"a.dat", "d/b.txt"});
}

TEST_CASE("local is extracted on each node, global by the first shell only") {
  Staging local(1);
  local.host->options().set("stage-in.destination", "local:" + local.folder + "/x");
  CHECK(local.stage() == "");
  CHECK(local.files("x") == Names{"a.dat", "d/b.txt"});
  Staging global(1);
  global.host->options().set("stage-in.destination", "global:" + global.folder + "/x");
  CHECK(global.stage() == "");
  CHECK_FALSE(fs::exists(global.folder + "/x"));
}

TEST_CASE("files that are there are an error, unless overwriting is asked for") {
  Staging staging;
  staging.write("tmp/a.dat", "old");
  staging.host->options().set("stage-in", 1);
  CHECK(staging.stage() ==
        fmt::format("1 stage-in: {}/ar/main.tar.zst: 'a.dat': exists already, and overwriting was "
                    "not asked for",
                    staging.folder));
  CHECK(staging.text("tmp/a.dat") == "old");
  Staging again;
  again.write("tmp/a.dat", "old");
  again.host->options().set("stage-in.overwrite", 1);
  CHECK(again.stage() == "");
  CHECK(again.text("tmp/a.dat") == "A");
}

TEST_CASE("archives may be elsewhere: stage-in.dir, or by the environment of the job, or of the shell") {
  Staging option;
  option.host->environment().set("NACRE_ARCHIVE_DIR", "/none");
  option.host->mutable_job().spec.cwd = option.folder;
  option.host->options().set("stage-in.dir", "ar");
  CHECK(option.stage() == "");
  CHECK(option.files("tmp").size() == 2);
  Staging shells;
  shells.host->environment().unset("NACRE_ARCHIVE_DIR");
  ::setenv("NACRE_ARCHIVE_DIR", (shells.folder + "/ar").c_str(), 1);
  shells.host->options().set("stage-in", 1);
  CHECK(shells.stage() == "");
  ::unsetenv("NACRE_ARCHIVE_DIR");
  CHECK(shells.files("tmp").size() == 2);
}

TEST_CASE("an archive that is not there is told in shell.init, with those that are") {
  Staging staging;
  staging.host->options().set("stage-in.names", "main,typo");
  CHECK(staging.stage() ==
        fmt::format("{}stage-in: no archive 'typo' in {}/ar (there: 'main', 'more')", kInit, staging.folder));
  CHECK(staging.files("tmp").empty());
}

TEST_CASE("the options of stage-in that make no sense are errors") {
  CHECK(option_error("yes") == kInit + "stage-in: expected on or off, got \"yes\"");
  CHECK(option_error({{"name", "main"}}) ==
        kInit + "stage-in.name: unknown key; known: names, tags, pattern, destination, overwrite, max-size, dir");
  CHECK(option_error({{"names", 1.5}}) == kInit + "stage-in.names: expected a string, got 1.5");
  CHECK(option_error({{"names", "main,"}}) == kInit + "stage-in: archive name '': expected a name");
  CHECK(option_error({{"names", "../main"}}) ==
        kInit + "stage-in: archive name '../main': expected a name that does not start with '.'");
  CHECK(option_error({{"pattern", 1}}) == kInit + "stage-in.pattern: expected a string, got 1");
  CHECK(option_error({{"destination", "node:/x"}}) ==
        kInit + "stage-in.destination: expected local:PATH, global:PATH or PATH, got \"node:/x\"");
  CHECK(option_error({{"destination", "local:"}}) ==
        kInit + "stage-in.destination: expected a path, got \"local:\"");
  CHECK(option_error({{"overwrite", "x"}}) == kInit + "stage-in.overwrite: expected on or off, got \"x\"");
}

TEST_CASE("no place to extract to is an error before anything is begun") {
  Staging nowhere;
  nowhere.host->environment().unset("FLUX_JOB_TMPDIR");
  nowhere.host->options().set("stage-in", 1);
  CHECK(nowhere.stage() ==
        "plugin 'stage-in': shell.post-init: stage-in: no FLUX_JOB_TMPDIR to extract to; use stage-in.destination");
  Staging file;
  file.write("plain", "");
  file.host->options().set("stage-in.destination", file.folder + "/plain/x");
  CHECK(file.stage() == fmt::format("plugin 'stage-in': shell.post-init: stage-in: cannot make {}/plain/x: Not a "
                                    "directory",
                                    file.folder));
}

TEST_CASE("a damaged archive ends the job") {
  Staging staging;
  std::string whole = staging.text("ar/main.tar.zst");
  staging.write("ar/main.tar.zst", whole.substr(0, whole.size() / 2));
  staging.host->options().set("stage-in", 1);
  CHECK(staging.stage() == fmt::format("1 stage-in: {}/ar/main.tar.zst: no tar archive (plain, gzip, zstd or xz), "
                                       "or a damaged one: Truncated zstd input",
                                       staging.folder));
}

TEST_CASE("shell.exit stops an extraction at its next block, and waits for that") {
  Staging staging;
  fs::create_directory(staging.folder + "/from/many");
  for (int i = 0; i < 2000; ++i) staging.write(fmt::format("from/many/{}", i), "x");
  staging.archive("big", {"many"});
  staging.host->options().set("stage-in.names", "big");
  REQUIRE(staging.host->call("shell.init"));
  REQUIRE(staging.host->call("shell.post-init"));
  REQUIRE(staging.host->call("shell.exit"));
  auto after = staging.files("tmp").size();
  CHECK(after < 2000);
  CHECK(staging.files("tmp").size() == after);
  CHECK(staging.host->deaths.empty());
}
