// SPDX-License-Identifier: Apache-2.0
//
// Each verb's message about a wrong command line: a table of all kinds of mistakes.
#include <fcntl.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "folder.hpp"
#include "front/verbs.hpp"
#include "redirected.hpp"

using namespace nacre;  // NOLINT

namespace {

constexpr cli::NamedVerb kAll[] = {
    {"run", "", front::make_run},           {"launch", "", front::make_launch},
    {"jobs", "", front::make_jobs},         {"ps", "", front::make_ps},
    {"top", "", front::make_top},           {"doctor", "", front::make_doctor},
    {"timeline", "", front::make_timeline}, {"attach", "", front::make_attach},
    {"wait", "", front::make_wait},         {"exec", "", front::make_exec},
    {"kill", "", front::make_kill},         {"cancel", "", front::make_cancel},
    {"restart", "", front::make_restart},   {"shrink", "", front::make_shrink},
    {"grow", "", front::make_grow},         {"report", "", front::make_report},
    {"archive", "", cli::make_archive},     {"initrc", "", cli::make_initrc},
    {"plugin", "", cli::make_plugin},       {"control", "", front::make_control},
    {"version", "", cli::make_version},
};

constexpr std::size_t kWithQuiet = 16;  // how many of the verbs have -q

struct Row {
  std::string verb, words;  // between blanks
  const char* error;
};

const Row kWrong[] = {
    {"run", "-n", "--ntasks: expected a value"},
    {"run", "-n 0 true", "--ntasks: expected a number from 1 to 16777216, got '0'"},
    {"run", "-n 4:2 true", "--ntasks: expected a number of tasks, or MIN:MAX as in 4:16, got '4:2'"},
    {"run", "-n x true", "--ntasks: expected a number from 1 to 16777216, got 'x'"},
    {"run", "--tasks-per-node=0 true",
     "--tasks-per-node: expected a number from 1 to 16777216, gpu or slots, got '0'"},
    {"run", "--tasks-per-node=gpus true",
     "--tasks-per-node: expected a number from 1 to 16777216, gpu or slots, got 'gpus'"},
    {"run", "--at-most=0 true", "--at-most: expected a number from 1 to 16777216, or cores, got '0'"},
    {"run", "-n 2 echo ::: a", "-n 2, but the list has 1 element, a task for each: leave out -n"},
    {"run", "--resume true", "--resume needs --joblog"},
    {"run", "--fold=nodes true", "--fold: expected ranks or hosts, got 'nodes'"},
    {"run", "--tee true", "--tee prints what goes to files: give --output, --error or --log-dir with it"},
    {"run", "--log-dir=a --output=b true", "--output=b and --log-dir=a contradict each other: give one of them"},
    {"run", "--redirects true",
     "'--redirects' is not known here: --log-dir=DIR writes both streams of each task to files; with --tee they "
     "are printed "
     "too"},
    {"run", "--ntasks= true", "--ntasks=: expected a value behind ="},
    {"run", "--hosts= true", "--hosts=: expected a value behind ="},
    {"run", "--local=-1 true", "--local: expected a number from 1 to 4096, got '-1'"},
    {"run", "--timeout=0 true", "--timeout: expected a number from 0.001 to 86400, got '0'"},
    {"run", "--timeout=nan true", "--timeout: expected a number from 0.001 to 86400, got 'nan'"},
    {"run", "-q -v true", "--quiet and --verbose exclude each other: give one of them"},
    {"run", "-qv true", "--quiet and --verbose exclude each other: give one of them"},
    {"run", "--hosts=a --local=2 true", "give only one of --hosts,--hostfile,--local,--srun"},
    {"run", "--bogus true", "'--bogus' is not known here"},
    {"run", "", "expected a program to run: nacre run -n 4 hostname"},
    {"run", "-n 1 -n 2 true", "--ntasks: give it only once"},
    {"run", "-q=3 true", "'=3' stands behind a short option that takes no value"},
    {"run", "--quiet=3 true", "--quiet: takes no value, got '3'"},
    {"run", "--dry-run=x true", "--dry-run: takes no value, got 'x'"},
    {"run", "--cpu-bind=socket true", "--cpu-bind: expected thread, core, l3, numa, package or none, got 'socket'"},
    {"run", "--rehearse-force true", "--rehearse-force needs --rehearse"},
    {"run", "--rehearse=stop true", "--rehearse: at character 1: expected kill, freeze or cut, got 'stop'"},
    {"run", "--pty= true", "--pty=: expected a value behind ="},
    {"run", "--usage= true", "--usage=: expected a value behind ="},
    {"run", "-N 4+ true",
     "--nodes: expected a number of nodes, NODES+SPARES as in 4+1, or MIN:MAX as in 2:8, got '4+'"},
    {"run", "-t soon true", "--time-limit: expected minutes, or a time as 90s, 15m, 1.5h or 1:30:00, got 'soon'"},
    {"run", "--notify= true", "--notify=: expected a value behind ="},
    {"run", "--joblog= true", "--joblog=: expected a value behind ="},
    {"run", "--exit-main=4294967295 true", "--exit-main: expected a number from 0 to 4294967294, got '4294967295'"},
    {"run", "-o=1 true", "-o =1: expected OPT or OPT=VAL, OPT being a name or names joined by dots, got '=1'"},
    {"run", "true : -n 0 true", "behind ':': --ntasks: expected a number from 1 to 16777216, got '0'"},
    {"run", "true : -x true", "behind ':': '-x' is not known there: only -n is"},
    {"run", "true :", "expected a program behind the last ':'"},
    {"run", "-5 true", "'-5' is not known here"},
    {"run", "--pretend=foo true",
     "--pretend: 'foo': at character 1: expected the number of nodes; the form is "
     "NODESx[PACKAGESp]CORESc[THREADSt][GPUSg], as in 64x4c2g"},
    {"run", "--format=xml true", "--format: expected text or json, got 'xml'"},
    {"run", "--exit-policy=min true", "--exit-policy: expected max, main, all, main+all or first, got 'min'"},
    {"launch", "", "expected --jobspec=FILE"},
    {"launch", "-j", "--jobspec: expected a value"},
    {"launch", "-j a -j b", "--jobspec: give it only once"},
    {"launch", "-n 0 -j a", "--nodes: expected a number from 1 to 1048576, got '0'"},
    {"launch", "-q -v -j x", "--quiet and --verbose exclude each other: give one of them"},
    {"launch", "--arity=1 -j x", "--arity: expected a number from 2 to 1024, got '1'"},
    {"launch", "--hosts= -j x", "--hosts=: expected a value behind ="},
    {"exec", "", "expected a command"},
    {"exec", "--shels", "'--shels' is not known here; did you mean --shells?"},
    {"exec", "-l=3 true", "'=3' stands behind a short option that takes no value"},
    {"exec", "-l -N true", "give only one of --label,--no-label,--fold,--fold-live"},
    {"exec", "-S --exit-policy=max true", "--exit-policy and -S exclude each other: give one of them"},
    {"exec", "-i -d true", "--detach and --input exclude each other: give one of them"},
    {"exec", "--pty -l true", "--pty and --label exclude each other: give one of them"},
    {"exec", "--exit-policy=min true", "--exit-policy: expected max, main, all, main+all or first, got 'min'"},
    {"exec", "-u soon true",
     "--time-limit: duration 'soon': expected a number with a unit (ms, s, m, h or d) or infinity"},
    {"exec", "--env FOO true", "--env: 'FOO': expected NAME=VALUE"},
    {"exec", "-r x true", "--ranks: idset 'x': expected an id, got 'x'"},
    {"exec", "-w", "--hosts: expected a value"},
    {"jobs", "x", "'x' is not known here"},
    {"jobs", "--al", "'--al' is not known here; did you mean --all?"},
    {"ps", "a b", "'b' is not known here"},
    {"top", "-n 0", "--count: expected a number from 1 to 4294967295, got '0'"},
    {"top", "-n x", "--count: expected a number from 1 to 4294967295, got 'x'"},
    {"top", "-d x", "--delay: 'x': expected 0.1 to 3600 seconds"},
    {"top", "-d", "--delay: expected a value"},
    {"doctor", "--twice=x", "--twice: 'x': expected 0.05 to 60 seconds"},
    {"doctor", "--stacks=x", "--stacks: 'x': expected auto, eu-stack, gdb, py-spy"},
    {"timeline", "-o f --json", "--output and --json exclude each other: give one of them"},
    {"attach", "--tail=x", "--tail: 'x': expected a number of lines, all or none"},
    {"attach", "--pty=x", "--pty: 'x': expected a rank"},
    {"attach", "--pty --json", "--pty and --json exclude each other: give one of them"},
    {"attach", "--input=mine", "--input: 'mine': expected take, or nothing"},
    {"attach", "--format=x", "--format: expected text or json, got 'x'"},
    {"wait", "--via", "--via: expected a value"},
    {"kill", "-s KILL", "expected a job: its id, its name, or last for the one that has begun last"},
    {"cancel", "", "expected a job: its id, its name, or last for the one that has begun last"},
    {"kill", "-s FOO", "--signal: 'FOO': expected the name or the number of a signal"},
    {"kill", "--ranks=", "--ranks=: expected a value behind ="},
    {"cancel", "a b", "'b' is not known here"},
    {"restart", "--ranks=x", "--ranks: idset 'x': expected an id, got 'x'"},
    {"shrink", "", "expected one of --hosts, --shells and --count"},
    {"shrink", "--count=x", "--count: expected a number, got 'x'"},
    {"shrink", "--count=0", "--count: expected at least 1"},
    {"grow", "--count=x", "--count: expected a number, got 'x'"},
    {"grow", "", "expected one of --hosts and --count"},
    {"report", "--policy=mean", "--policy: expected max, main, all, main+all or first, got 'mean'"},
    {"report", "--usage --policy=max", "--usage and --policy exclude each other: give one of them"},
    {"report", "--all", "--all needs --usage"},
    {"report", "--plot=x", "--plot needs --usage"},
    {"report", "--plot= --usage", "--plot=: expected a value behind ="},
    {"report", "--bundle --usage", "--bundle and --usage exclude each other: give one of them"},
    {"report", "--force", "--force needs --bundle"},
    {"archive", "", "expected create or list or extract or remove"},
    {"archive create", "", "expected PATH"},
    {"archive", "--name=x", "'--name=x' is not known here"},
    {"archive create", "--overwrite --append x", "--append and --overwrite exclude each other: give one of them"},
    {"archive create", "--compression=zip x", "--compression: expected none, gzip, zstd or xz, got 'zip'"},
    {"archive create", "--compresion=zip x", "'--compresion=zip' is not known here; did you mean --compression?"},
    {"archive extract", "--max-size=big", "--max-size: expected a number of bytes, such as 4096 or 10M, got 'big'"},
    {"archive extract", "--max-size", "--max-size: expected a value"},
    {"archive list", "--archives pat", "PATTERN and --archives exclude each other: give one of them"},
    {"archive list", "a b", "'b' is not known here"},
    {"archive remove", "x", "'x' is not known here"},
    {"initrc", "", "expected check"},
    {"initrc check", "a b", "'b' is not known here"},
    {"plugin", "", "expected new or list or check"},
    {"plugin new", "", "expected NAME"},
    {"plugin new", "x", "expected --lang=LANG"},
    {"plugin new", "x -l ada", "--lang: expected c, c++ or lua, got 'ada'"},
    {"plugin list", "-j x", "--jobspec needs --resources"},
    {"plugin list", "-R x", "--resources needs --jobspec"},
    {"plugin check", "", "expected FILE"},
    {"plugin check", "-t 0 x", "--timeout: expected a number from 0.001 to 3600, got '0'"},
    {"control", "", "expected --bridge=ID"},
    {"", "lanch", "'lanch' is not known here; did you mean launch?"},
    {"", "--bogus", "'--bogus' is not known here"},
    {"", "-x run", "'-x' is not known here"},
    {"", "archive.create x", "'archive.create' is not known here"},
    {"", "run.x", "'run.x' is not known here; did you mean run?"},
    {"", "--run.n 4", "'--run.n' is not known here"},
    {"", "", "expected a verb, as in: nacre run -n 4 hostname"},
};

// What `nacre VERB WORDS` prints to standard error.
std::string said(const std::string& verb, const std::string& words) {
  std::vector<std::string> all{"nacre"};
  for (const std::string& each : {verb, words})
    for (std::string_view word : split(each, ' '))
      if (!word.empty()) all.emplace_back(word);
  std::vector<char*> argv;
  for (std::string& each : all) argv.push_back(each.data());
  kit::TemporaryFolder folder;
  std::string path = folder.path("err");
  int code = 0;
  {
    UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    kit::Redirected redirected(STDERR_FILENO, file.get());
    code = cli::run_nacre(static_cast<int>(argv.size()), argv.data(), kAll);
  }
  CHECK(code == 2);
  return read_file(path).value();
}

void check(const std::string& verb, const std::string& words, std::string_view error) {
  CAPTURE(verb, words);
  std::string program = verb.empty() ? "nacre" : "nacre " + verb;
  CHECK(said(verb, words) == fmt::format("{}: {}\nTry '{} --help'.\n", program, error, program));
}

}  // namespace

TEST_CASE("a wrong command line ends with 2, and with what was expected in words of this program") {
  for (const auto& [verb, words, error] : kWrong) check(verb, words, error);
}

TEST_CASE("each verb refuses an option that it does not have, and a value of one that takes none") {
  for (const cli::NamedVerb& each : kAll) check(each.name, "--bogus", "'--bogus' is not known here");
  for (const cli::NamedVerb& each : std::span(kAll).first(kWithQuiet))
    check(each.name, "--quiet=1", "--quiet: takes no value, got '1'");
}
